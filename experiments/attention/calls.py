"""How fast is `flash_attention` as its users call it, with the time that a call takes on the host?

Events around the call on a stream with nothing queued, for libraries alike. The square problems of hopper_grid, and
those of users: one batch, heads that share keys, lengths that no tile divides, (batch, seq, heads, head_dim), a prompt
in parts, a long one. In bf16, which both libraries take.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from dataclasses import replace

from harness.catalog.entries import Experiment
from harness.operators.attention.problem import Problem

LONG = Problem(1, 32, 32, 4096, 4096, 128, "bf16", True)
USERS = (
    *(replace(LONG, heads=8, heads_kv=8, seq_q=seq, seq_kv=seq) for seq in (512, 1024, 2048, 4096, 8192)),
    *(replace(LONG, heads=14, heads_kv=2, head_dim=64, seq_q=seq, seq_kv=seq) for seq in (512, 1024, 2048, 4096, 8192)),
    *(replace(LONG, seq_q=seq, seq_kv=seq) for seq in (512, 1024, 2048, 3000, 4095, 4097, 8192)),
    replace(LONG, heads_kv=1, seq_q=2048, seq_kv=2048),
    replace(LONG, heads_kv=8),
    replace(LONG, heads=28, heads_kv=4),
    replace(LONG, layout="bshd"),
    replace(LONG, heads_kv=8, layout="bshd"),
    replace(LONG, heads_kv=8, seq_q=1024, seq_kv=8192, causal=False),
    replace(LONG, heads=8, heads_kv=8, seq_q=131_072, seq_kv=131_072),
)

EXPERIMENT = Experiment(
    problems=(*Problem.comparison_grid((512, 1024, 2048, 4096, 8192, 16_384)), *USERS),
    backends=(),
    peers=("flash_attention", "sdpa_cudnn", "fa3"),
    modes=("idle",),
    distributions=("normal",),
    one_group=True,
)
