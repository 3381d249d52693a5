"""Is this C right? Every element has a limit of its own: half an ulp of its dtype, and what fp32 sums may be off."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from harness.operators.gemm.reference import Expected
from harness.operators.precision import check_finite
from harness.operators.protocol import Failure, Verdict

PEER_ROUNDINGS = 4.0
"""A library may split k and round the parts to 16 bits: so many half ulps of the largest sum on the way."""


def compare(outputs: Mapping[str, Tensor | None], expected: Expected, *, peer: bool = False) -> Verdict:
    """The verdict on what a kernel or a library wrote. Checks, in order: finite, max_error."""
    c = outputs["c"]
    assert c is not None
    allowed = expected.allowed.double()
    if peer:
        sixteen = torch.finfo(expected.sample.tensors["a"].dtype).eps
        allowed = allowed + PEER_ROUNDINGS * sixteen / 2 * torch.maximum(expected.peak, expected.c.abs())
    limit = allowed + half_ulp(expected.c.abs() + allowed, c.dtype)
    error = (c.double() - expected.c).abs()
    failure = check_finite("C", c) or _too_far(error, limit, expected)
    told = torch.where(expected.norms > 0, 1 / expected.norms.double(), 0.0)
    figures = {
        "max_abs": (error * told).max(),
        "rel_l2": error.norm() / expected.c.norm(),
        "max_error_used": (error / limit).max(),
        "yardstick": expected.yardstick,
        "floor": (expected.allowed * told).max(),
    }
    numerics: dict[str, Any] = {name: float(value) if math.isfinite(value) else None for name, value in figures.items()}
    return Verdict.of(failure, numerics)


def half_ulp(size: Tensor, dtype: torch.dtype) -> Tensor:
    """Half the distance between neighbours of that size, which rounding once may be off by."""
    info = torch.finfo(dtype)
    exponent = torch.frexp(size.clamp_min(info.tiny)).exponent - 1
    return torch.ldexp(torch.full_like(size, info.eps / 2), exponent)


def _too_far(error: Tensor, limit: Tensor, expected: Expected) -> Failure | None:
    wrong = error > limit
    if not (count := int(wrong.sum())):
        return None
    row, column = (int(i) for i in torch.unravel_index((error / limit).argmax(), error.shape))
    return "max_error", (
        f"{count} of {error.numel()} elements of C are further off than rounding and fp32 sums allow; the worst at row "
        f"{row}, column {column}: off by {error[row, column]:.3g} where {expected.c[row, column]:.6g} is exact, "
        f"allowed {limit[row, column]:.3g}"
    )
