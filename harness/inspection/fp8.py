"""What inputs of 8 bits would cost attention in exactness: the arithmetic of a kernel that is not written, on a CPU.

Two prices, apart. That of the inputs: exact attention on q, k and v rounded to e4m3, against exact attention on what
they were. That of the kernel: its roundings on inputs that are of 8 bits already, against exact attention on those.
For comparison the roundings of a careful 16-bit kernel.
"""

from __future__ import annotations

from typing import Any

import torch

from harness.catalog.problem import Problem
from harness.operators.attention import inputs, reference

PROBLEM = Problem(1, 1, 1, 256, 2048, 128, "bf16", False)
"""Many keys, because errors of sums grow over them."""
QUERIES = 32
"""The first ones, which the roundings of the kernel are computed of: its sums are made product by product."""
E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max
BLOCK = 128
"""Rows that share a scale."""
P_SCALE = 256.0
"""The power of two that takes P, at most 1, furthest from where e4m3 loses bits, and below LARGEST."""
DEPTH = 32
"""Products that one wgmma of 8-bit elements adds up for each element of its result."""
SUM_BITS = 13
"""Bits that a wgmma of 8-bit elements keeps below its largest summand: what reaches further is cut off, in each summand
(tests/kernels/test_cpu_instructions.py allows a GPU for it). That the sum so far is cut alike is the finding of the
DeepSeek-V3 report on an H800 (arXiv 2412.19437, section 3.5.2)."""

SIXTEEN = "bf16"
INPUTS = {
    "tensor": "a scale for each tensor",
    "block": f"a scale for {BLOCK} rows",
    "rotated": f"a scale for {BLOCK} rows, Q and K rotated",
}
KERNEL = {
    "p": "P as it is",
    "p_scaled": f"{P_SCALE:.0f} P",
    "sums": f"{P_SCALE:.0f} P, short sums",
}
"""Column -> what it is."""

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def quantized(values: torch.Tensor, rows: int) -> torch.Tensor:
    """(seq, head_dim) to e4m3 and back in fp64, with one scale for each `rows` rows: their largest value is LARGEST."""
    values = values.double()
    parts = []
    for part in values.split(rows):
        scale = part.abs().max() / LARGEST
        parts.append((part / scale).clamp(-LARGEST, LARGEST).to(E4M3).double() * scale if scale else part)
    return torch.cat(parts)


def rotation(size: int) -> torch.Tensor:
    """An orthogonal matrix all of whose entries have one size, fp64 (size, size), `size` a power of two: outliers of a
    column are spread over all. Hadamard's, with random signs."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    signs = torch.randint(0, 2, (size, 1), generator=torch.Generator().manual_seed(0)) * 2 - 1
    return signs * matrix / size**0.5


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a (m, k) times b (k, n) as wgmma of 8-bit elements computes it, in fp32: DEPTH products at a time, all of them
    and the sum so far cut to SUM_BITS bits below the largest."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], DEPTH):
        left, right = a[:, start : start + DEPTH].float(), b[start : start + DEPTH].float()
        products = left.T[:, :, None] * right[:, None]
        low, high = products.aminmax(dim=0)
        largest = torch.maximum(torch.maximum(high, -low), total.abs())
        step = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1 - SUM_BITS)
        total = (products.div_(step).trunc_().sum(0) + total.div_(step).trunc_()).mul_(step)
    return total


def attend(given: Inputs, scale: float, p_scale: float, *, short_sums: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """O (seq_q, head_dim) and LSE (seq_q,) of inputs of 8 bits, a scale each, in fp64. P = exp(S - row max) times
    `p_scale` is rounded to e4m3; row sums are of what P was before. `short_sums`: both products are `product`'s."""
    multiply = product if short_sums else torch.matmul
    codes, scales = zip(*(_codes(tensor) for tensor in given), strict=True)
    q, k, v = codes
    scores = multiply(q, k.T).double() * (scale * scales[0] * scales[1])
    row_max = scores.amax(1, keepdim=True)
    p = torch.exp(scores - row_max)
    row_sum = p.sum(1, keepdim=True)
    o = multiply((p * p_scale).to(E4M3).double(), v).double() / row_sum * (scales[2] / p_scale)
    return o, (row_max + row_sum.log()).squeeze(1)


def _codes(tensor: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Elements as e4m3 has them, and their scale."""
    scale = float(tensor.abs().max() / LARGEST) or 1.0
    return tensor / scale, scale


def errors(distribution: str) -> dict[str, float]:
    """Column -> L2 norm of a query's error of O over that of its O, the median query's, on inputs of one distribution;
    and for each column "<column> lse", the largest error of LSE."""
    sample = inputs.sample(PROBLEM, distribution, 0, "cpu")
    whole = (sample.q, sample.k, sample.v)
    scale = PROBLEM.scale * inputs.SCALE_FACTORS.get(distribution, 1.0)
    given: Inputs = (sample.q[0, 0].double(), sample.k[0, 0].double(), sample.v[0, 0].double())
    truth = _exact(given, scale)
    turn = rotation(PROBLEM.head_dim)
    turned = (given[0] @ turn, given[1] @ turn, given[2])
    rounded = {
        "tensor": _rounded(given, max(PROBLEM.seq_q, PROBLEM.seq_kv)),
        "block": _rounded(given, BLOCK),
        "rotated": _rounded(turned, BLOCK),
    }
    o, lse = reference.yardstick(*whole, scale=scale, causal=False)
    found = _against(truth, SIXTEEN, (o[0, 0].double(), lse[0, 0].double()))
    for name, eight in rounded.items():
        found |= _against(truth, name, _exact(eight, scale))
    q, k, v = rounded["tensor"]
    eight = q[:QUERIES], k, v
    truth = _exact(eight, scale)
    found |= _against(truth, "p", attend(eight, scale, 1.0, short_sums=False))
    found |= _against(truth, "p_scaled", attend(eight, scale, P_SCALE, short_sums=False))
    found |= _against(truth, "sums", attend(eight, scale, P_SCALE, short_sums=True))
    return found


def key_in_slot(slot: int) -> int:
    """The key, of the 32 of a wgmma, whose P a lane has without a shuffle where operand A wants `slot`.

    The lane at place t of its quad has the columns 8 j + 2 t and the next of the accumulators; as bytes of A it gives
    the columns 16 h + 4 t to 16 h + 4 t + 3 (wgmma.cuh). With V's keys in this order P needs no lane but its own.
    """
    half, quad, byte = slot // 16, slot % 16 // 4, slot % 4
    return 16 * half + 8 * (byte // 2) + 2 * quad + byte % 2


def about() -> dict[str, Any]:
    """What the row is about."""
    return {"kind": "fp8", "on": "cpu", "experiment": "inspect", "backend": "torch", "problem": PROBLEM.to_dict()}


def row() -> dict[str, Any]:
    """The whole row but for its environment: `numerics` are the errors of each distribution, `details` {"inputs",
    "kernel": what their columns are, "order": that of V's keys in which P needs no shuffle}."""
    return {
        **about(),
        "status": "passed",
        "numerics": {name: errors(name) for name in inputs.DISTRIBUTIONS},
        "details": {"inputs": INPUTS, "kernel": KERNEL, "order": [key_in_slot(slot) for slot in range(DEPTH)]},
    }


def _rounded(given: Inputs, rows: int) -> Inputs:
    q, k, v = (quantized(tensor, rows) for tensor in given)
    return q, k, v


def _exact(given: Inputs, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    o, lse = reference.truth(*(tensor[None, None] for tensor in given), scale=scale, causal=False)
    return o[0, 0], lse[0, 0]


def _against(
    truth: tuple[torch.Tensor, torch.Tensor], name: str, found: tuple[torch.Tensor, torch.Tensor]
) -> dict[str, float]:
    error = torch.linalg.vector_norm(found[0] - truth[0], dim=1) / torch.linalg.vector_norm(truth[0], dim=1)
    return {name: error.median().item(), f"{name} lse": (found[1] - truth[1]).abs().max().item()}
