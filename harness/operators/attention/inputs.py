"""The same inputs for every backend: seeded values of q, k and v."""

import math
from collections.abc import Callable

import torch

from harness.operators.attention.arguments import Shape, scalars, shapes
from harness.operators.attention.problem import Problem
from harness.operators.memory import DTYPES
from harness.operators.protocol import Sample

CPU_LIMIT = 2**24
"""Elements up to which values are drawn on the CPU, so that every device gets the same ones. Larger tensors are drawn
on their device, whose generator is faster and another one."""
LARGE_LOGIT_STD = 30.0
NEGATIVE_SCORE = 120.0
"""By so much all scores of a distribution are lower: exp of them is 0 in fp32, that of a masked score of -50 is not."""
FAR_BELOW = 1.2e4
"""The same of another distribution. Kernels were seen to begin with -1e4; scores of 1e5 would lose their digits."""
LOWER = 3
"""By so many times as much those of the first half of the keys: a running max that stays where the first tile put it
lets exp overflow, and one that begins with -200 lets it be 0."""
LIFTED = 8
"""Columns of q and k that carry them: as many as a 16-byte load has."""


def _normal(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


def _shifted(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1) + 0.5: O keeps away from zero, so that an error is not lost in its noise."""
    return _normal(name, shape, generator) + 0.5


def _outliers(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), and on top of one element in a thousand N(0, 10^2): the activations of large models look like that."""
    values = _normal(name, shape, generator)
    hit = torch.rand(shape, generator=generator, device=generator.device) < 1e-3
    return values.add_(hit * _normal(name, shape, generator), alpha=10.0)


def _large_logits(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """Scores with standard deviation 30: nearly one-hot rows, and a running max that moves far.

    With q, k ~ N(0, a^2) the scores q.k / sqrt(head_dim) have standard deviation a^2.
    """
    values = _normal(name, shape, generator)
    return values if name == "v" else values.mul_(LARGE_LOGIT_STD**0.5)


def _constant_rows(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """All keys of a head are equal, so the softmax is uniform, P is exactly 1 and O is the mean of the visible V.

    V is shifted, or O would be near zero and a wrong number of keys would hardly move it.
    """
    values = _normal(name, shape, generator)
    if name == "k":
        return values[:, :, :1].expand(shape)
    return values.add_(0.5) if name == "v" else values


def _negative_scores(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), and every score is lower by NEGATIVE_SCORE: LIFTED columns of q and k are constants of other signs.
    The first half of the keys is lower by LOWER times as much; in the last of several heads all keys are.

    A softmax does not see the shift. A running max that begins with 0 or never moves does, and a mask that is no
    infinity. V is shifted.
    """
    values = _normal(name, shape, generator)
    if name == "v":
        return values.add_(0.5)
    height = math.sqrt(NEGATIVE_SCORE * math.sqrt(shape[-1]) / SCALE_FACTORS["negative_scores"] / LIFTED)
    values[..., -LIFTED:] = height if name == "q" else -height
    if name == "k":
        values[:, :, : shape[2] // 2, -LIFTED:] *= LOWER
        if shape[0] * shape[1] > 1:
            values[-1, -1, shape[2] // 2 :, -LIFTED:] *= LOWER
    return values


def _far_below(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), and every score is lower by FAR_BELOW: a running max that begins with a large number, in place of minus
    infinity, is above them all."""
    values = _normal(name, shape, generator)
    if name == "v":
        return values
    height = math.sqrt(FAR_BELOW * math.sqrt(shape[-1]) / LIFTED)
    values[..., -LIFTED:] = height if name == "q" else -height
    return values


def _hidden_keys(name: str, shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """N(0, 1), and the scores of the first three quarters of the keys are -inf, as some pad; in the last of several
    heads those of the last three quarters. The last column of q is 1, that of K 0 or -inf. `sample` shows a key to the
    first row of a causal mask.

    Whole tiles of a row are -inf, first ones and later ones: a kernel that tests for -inf only where it masks computes
    -inf - -inf.
    """
    values = _normal(name, shape, generator)
    if name != "v":
        values[..., -1] = 1 if name == "q" else 0
    if name == "k":
        hidden = shape[2] * 3 // 4
        values[:, :, :hidden, -1] = -torch.inf
        if shape[0] * shape[1] > 1:
            values[-1, -1, :, -1] = values[-1, -1, :, -1].flip(0)
    return values


SCALE_FACTORS = {"negative_scores": 1.5}
"""By what the scale of a distribution differs from 1 / sqrt(head_dim), where it does: a kernel takes it as given."""

BEYOND_FP16 = {"outliers": {"q": 2.0**20, "k": 2.0**-20, "v": 2.0**20}}
"""Factors of a distribution's q, k and v in bf16. Scores stay what they are, and powers of two round nothing; but fp16
holds none of the values, so that a kernel that computes bf16 in fp16 is found out."""

DISTRIBUTIONS: dict[str, Callable[[str, Shape, torch.Generator], torch.Tensor]] = {
    "normal": _normal,
    "shifted": _shifted,
    "outliers": _outliers,
    "large_logits": _large_logits,
    "constant_rows": _constant_rows,
    "negative_scores": _negative_scores,
}
"""Name -> function (tensor name, shape, generator) -> fp32 values of that shape on the generator's device."""

FURTHER = {"far_below": _far_below, "hidden_keys": _hidden_keys}
"""What users' kernels get beside."""


def sample(problem: Problem, distribution: str, seed: int, device: torch.device | str, *, peer: bool = False) -> Sample:
    """Draws q, k and v, in the problem's dtype and contiguous: the same for both layouts. A peer gets the problem's own
    scale, since some libraries compile anew for another. Raises ValueError for an unknown distribution."""
    known = {**DISTRIBUTIONS, **FURTHER}
    if distribution not in known:
        raise ValueError(f"distribution: got {distribution!r}, expected one of {', '.join(known)}")
    draw, values = known[distribution], {}
    factors = BEYOND_FP16.get(distribution, {}) if problem.dtype == "bf16" else {}
    for number, (name, shape) in enumerate(shapes(problem).items()):
        generator = torch.Generator("cpu" if torch.Size(shape).numel() <= CPU_LIMIT else device)
        generator.manual_seed(3 * seed + number)
        drawn = draw(name, shape, generator)
        if name in factors:
            drawn = drawn * factors[name]
        values[name] = drawn.to(DTYPES[problem.dtype]).to(device).contiguous()
    if distribution == "hidden_keys" and problem.causal:
        values["k"][:, :, :1, -1] = 0.0
    factor = 1.0 if peer else SCALE_FACTORS.get(distribution, 1.0)
    return Sample(distribution, seed, values, {**scalars(problem), "scale": problem.scale * factor})
