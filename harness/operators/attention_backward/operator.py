"""Attention's backward pass as an operator. Standard library only: what computes is imported when it is first
called."""

import importlib
from functools import partial
from pathlib import Path

from harness.operators.attention.libraries import LIBRARIES
from harness.operators.attention.problem import ANCHOR, PEERS
from harness.operators.attention.titles import problem_order, problem_title
from harness.operators.attention_backward import titles
from harness.operators.attention_backward.ablations import ABLATIONS
from harness.operators.attention_backward.ladders import hopper
from harness.operators.attention_backward.problem import ALL_PEERS, Problem
from harness.operators.protocol import Operator, of_modules

HERE = "harness.operators.attention_backward"

OPERATOR = Operator(
    name="attention_backward",
    title="attention backward",
    folder=Path(__file__).parent,
    problem=Problem,
    ladders=(hopper.LADDER,),
    techniques=hopper.TECHNIQUES,
    ablations=ABLATIONS,
    distributions=("normal", "shifted", "outliers", "large_logits", "constant_rows", "negative_scores"),
    comparison_version=3,
    # The yardstick of version 1 is one of the three whose largest errors count; version 2 took nothing off an error.
    stricter_comparisons=("version 1", "version 2"),
    **of_modules(HERE, scratch_bytes="arguments.scratch_bytes"),
    signature="gradients(q, k, v, o, lse, do, *, causal, scale)",
    calling=(
        "gradients(q, k, v, o, lse, do, *, causal, scale), with q, o, do of shape (batch, heads, seq_q, head_dim) and "
        "k, v of shape (batch, heads_kv, seq_kv, head_dim), fp16 or bf16, last dimension contiguous, and lse of shape "
        "(batch, heads, seq_q) in fp32, the natural logarithm of the sum of exp(scale * q.k). It returns (dq, dk, dv), "
        "with the shapes and dtypes of q, k, v. A causal mask is aligned bottom right."
    ),
    benchmark=Problem.square(4, 16, 4096, 128),
    peers=ALL_PEERS,
    default_peers=PEERS,
    anchor=ANCHOR,
    libraries=dict.fromkeys(("fa4", "fa4_deterministic"), LIBRARIES["fa4"]),
    by_triton=("flex",),
    compiling_peers=("flex", "fa4", "fa4_deterministic"),
    in_torch={"SDPA flash, cuDNN, math": "torch", "FlexAttention": "torch.nn.attention.flex_attention"},
    counted=Problem.square(1, 2, 256, 64, dtype="fp16", causal=True),
    sanitized={
        "all": (Problem(1, 2, 1, 256, 256, 128), Problem(1, 2, 2, 256, 256, 64, "fp16", True)),
        "general": (Problem(1, 2, 1, 200, 136, 64, "fp16", True, "bshd"),),
    },
    other_problems=(
        Problem(2, 2, 2, 65, 65, 64, "fp16", True, "bshd"),  # a row and a key more than a tile
        Problem(1, 4, 2, 200, 136, 64, "fp16", True),  # rows that see no key
        Problem(1, 2, 1, 1, 641, 128, "bf16", False),  # one query, many keys
        Problem(1, 8, 2, 384, 384, 128, "bf16", True),
    ),
    themes=titles.THEMES,
    labels=titles.LABELS,
    problem_title=problem_title,
    problem_order=problem_order,
    prices=partial(importlib.import_module, f"{HERE}.prices"),
)
