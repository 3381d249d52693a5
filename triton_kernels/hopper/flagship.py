"""The fastest attention of this ladder in core Triton: a program for each kind of problem, at tiles of its own.

Builds on wgmma and integer_max; head_dim 64 takes integer_max, but for short causal sequences, and the others wgmma.
Later rungs express the order of the products, persistent blocks and lazy rescaling; the note on this rung tells what
each reaches at its best tile. The rest of the CUDA flagship has no counterpart in the language: turns between
warpgroups, a release that depends on the row maxima, a loop that ends at each warpgroup's own diagonal, and tensors of
80 keys.
"""

from triton_kernels.hopper import integer_max, wgmma

PROGRAMS = {"d64": integer_max, "d64-causal-short": wgmma, "d128": wgmma, "d256": wgmma}
"""Head_dim, mask and length (short: below 2048 keys) -> the rung whose program it is; the longest name that fits."""


class Table:
    """A twin that is another rung's on each problem. `kernel`: that of most."""

    kernel = wgmma.twin.kernel

    def specialize(self, problem, strides, tile, arch):
        return of(problem.head_dim, problem.causal, problem.seq_kv).specialize(problem, strides, tile, arch)

    def launch(self, q, k, v, o, lse, *, causal, **options):
        return of(q.shape[3], causal, k.shape[2]).launch(q, k, v, o, lse, causal=causal, **options)

    def workspace_bytes(self, problem):
        return of(problem.head_dim, problem.causal, problem.seq_kv).workspace_bytes(problem)


def of(head_dim, causal, keys):
    """The twin of a problem's program."""
    cell = f"d{head_dim}-{'causal' if causal else 'full'}-{'short' if keys < 2048 else 'longer'}"
    return PROGRAMS[max((name for name in PROGRAMS if cell.startswith(name)), key=len)].twin


twin = Table()
