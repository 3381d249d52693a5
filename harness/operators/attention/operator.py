"""Attention forward as an operator. Standard library only: what computes is imported when it is first called."""

import importlib
from functools import partial
from pathlib import Path

from harness.operators.attention import inspected, titles
from harness.operators.attention.ablations import ABLATIONS
from harness.operators.attention.ladders import ampere, decode, hopper, tma
from harness.operators.attention.libraries import LIBRARIES
from harness.operators.attention.problem import ALL_PEERS, ANCHOR, PEERS, Problem
from harness.operators.protocol import Operator, of_modules

OPERATOR = Operator(
    name="attention",
    title="attention forward",
    folder=Path(__file__).parent,
    problem=Problem,
    ladders=(ampere.LADDER, tma.LADDER, hopper.LADDER, decode.LADDER),
    techniques=(*ampere.TECHNIQUES, *tma.TECHNIQUES, *hopper.TECHNIQUES, *decode.TECHNIQUES),
    ablations=ABLATIONS,
    distributions=("normal", "shifted", "outliers", "large_logits", "constant_rows", "negative_scores"),
    own_distributions=("far_below", "hidden_keys"),
    comparison_version=1,
    comparison_hashes=("5d07e369576e",),
    **of_modules(
        "harness.operators.attention",
        validate="validate.validate_launch",
        has_packed_strides="arguments.has_packed_strides",
        peer_kernel="peers.kernel",
        profiled="inspected.profiled",
        pictures="structured_heads.update",
    ),
    signature="attend(q, k, v, *, causal, scale)",
    calling=(
        "attend(q, k, v, *, causal, scale), with q of shape (batch, heads, seq_q, head_dim) and k, v of shape (batch, "
        "heads_kv, seq_kv, head_dim), fp16 or bf16, last dimension contiguous. It returns o, with the shape and dtype "
        "of q, or (o, lse), with lse of shape (batch, heads, seq_q) in fp32. A causal mask is aligned bottom right."
    ),
    benchmark=Problem.square(4, 16, 4096, 128),
    peers=ALL_PEERS,
    default_peers=PEERS,
    anchor=ANCHOR,
    libraries=LIBRARIES,
    by_triton=("flex",),
    compiling_peers=("flex", "fa4"),
    in_torch={"SDPA flash, cuDNN, math": "torch", "FlexAttention": "torch.nn.attention.flex_attention"},
    counted=inspected.COUNTED,
    sanitized=inspected.SANITIZED,
    other_problems=(
        Problem(2, 2, 2, 65, 65, 64, "fp16", True, "bshd"),  # a row and a key more than a tile
        Problem(1, 1, 1, 1, 641, 128, "bf16", False),  # one query, many keys
        # with these, all values of each field are met, and most pairs of values of two fields
        Problem(3, 1, 1, 65, 384, 64, "fp16", True, "bshd"),
        Problem(5, 8, 8, 1, 1025, 64, "fp16", True),
        Problem(5, 2, 1, 1, 641, 64, "fp16", True),
        Problem(2, 1, 1, 200, 65, 64, "bf16", True),
        Problem(5, 8, 1, 1, 384, 64, "bf16", True, "bshd"),
        Problem(1, 8, 1, 65, 65, 128, "bf16", False),
        Problem(3, 2, 1, 1, 1025, 128, "bf16", False, "bshd"),
        Problem(5, 8, 8, 1, 128, 128, "bf16", False, "bshd"),
        Problem(3, 2, 2, 1, 384, 256, "fp16", False),
        Problem(1, 2, 1, 65, 65, 256, "bf16", True),
        Problem(1, 1, 1, 1, 1025, 256, "bf16", True),
        Problem(2, 8, 1, 1, 641, 256, "bf16", True, "bshd"),
        Problem(5, 6, 2, 1, 65, 256, "bf16", True, "bshd"),
        Problem(1, 8, 2, 128, 4096, 128, "bf16", True),  # on a GPU alone
    ),
    functions={
        "flash_attention": "harness.operators.attention.api",
        "register_flash_attention": "harness.operators.attention.sdpa",
    },
    themes=titles.THEMES,
    labels=titles.LABELS,
    instructions=titles.INSTRUCTIONS,
    hints={"warp_specialized": "USETMAXREG"},
    problem_title=titles.problem_title,
    problem_order=titles.problem_order,
    prices=partial(importlib.import_module, "harness.operators.attention.prices"),
)
