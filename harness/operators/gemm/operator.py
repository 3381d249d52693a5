"""Matrix products as an operator. Standard library only: what computes is imported when it is first called."""

from pathlib import Path

from harness.operators.gemm import schedules, titles
from harness.operators.gemm.ladders import ampere, hopper
from harness.operators.gemm.libraries import ANCHOR, CUBLAS, LIBRARIES, PEERS, TORCH_GROUPED
from harness.operators.gemm.problem import Problem
from harness.operators.protocol import Operator, of_modules

OPERATOR = Operator(
    name="gemm",
    title="matrix products",
    folder=Path(__file__).parent,
    problem=Problem,
    ladders=(ampere.LADDER, hopper.LADDER),
    techniques=(*ampere.TECHNIQUES, *hopper.TECHNIQUES),
    distributions=("normal", "shifted", "positive", "outliers", "huge_row", "cancellation"),
    comparison_version=1,
    **of_modules("harness.operators.gemm"),
    signature="multiply(a, b)",
    calling=(
        "multiply(a, b), with a of shape (m, k) and b of shape (n, k), fp16 or bf16; multiply(a, b, bias), with bias "
        "of shape (n,), if the problem has an epilogue; multiply(a, b, offsets), with b of shape (groups, n, k) and "
        "offsets int32 (groups,), the end of each group's rows, if it has groups. k is contiguous in a and b; m in a "
        "where the problem's name ends in mk or mn, n in b where it ends in kn or mn. A parameter "
        "`epilogue` gets plain, bias or gelu (GELU in its tanh form), a parameter `dtype` that of c: that of a, or "
        "torch.float32; without them the function declines problems with GELU and with c in fp32. It returns c of "
        "shape (m, n), a b^T through the epilogue."
    ),
    benchmark=Problem.square(4096),
    peers=(*PEERS, TORCH_GROUPED),
    default_peers=CUBLAS,
    anchor=ANCHOR,
    libraries=LIBRARIES,
    by_triton=("inductor",),
    compiling_peers=("inductor", "deep_gemm", "quack"),
    in_torch={"cuBLAS by torch.mm": "torch", "Inductor's Triton templates": "torch._inductor"},
    counted=Problem(128, 256, 256, "fp16"),
    sanitized={
        "all": (Problem(256, 256, 256), Problem(128, 512, 128, "fp16", "gelu")),
        "general": (Problem(200, 264, 136, "fp16", "bias", "fp32"),),
        # more tiles than an H200 has multiprocessors: blocks go on to another one; and steps that several blocks share
        "persistent": (Problem(2304, 2048, 256), Problem(256, 256, 2048)),
    },
    other_problems=(
        Problem(200, 136, 264, "fp16"),  # rows and columns beside whole tiles, and a tail of k
        Problem(1, 264, 8, "bf16", "bias", "fp32"),  # one row, one step of k
    ),
    named=schedules.named,
    themes=titles.THEMES,
    labels=titles.LABELS,
    problem_title=titles.problem_title,
    problem_order=titles.problem_order,
)
