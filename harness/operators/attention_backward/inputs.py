"""The same inputs for every backend: attention's seeded q, k and v, dO, and what the forward pass makes of them."""

import torch

from harness.operators.attention import inputs as forward
from harness.operators.attention.arguments import shapes
from harness.operators.attention.reference import truth
from harness.operators.attention_backward.problem import Problem
from harness.operators.protocol import Sample

DISTRIBUTIONS = tuple(forward.DISTRIBUTIONS)
SEED_OF_DO = 2**40
"""Far from the seeds of q, k and v."""
SHIFTED = ("shifted", "constant_rows")
"""Distributions whose dO keeps away from zero, as V does: dP and D are large beside their difference."""


def sample(problem: Problem, distribution: str, seed: int, device: torch.device | str, *, peer: bool = False) -> Sample:
    """Draws q, k, v and do in the problem's dtype, all contiguous; o in that dtype and lse in fp32 are what the exact
    forward pass gives, each rounded once. A peer gets the problem's own scale. Raises ValueError for an unknown
    distribution."""
    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"distribution: got {distribution!r}, expected one of {', '.join(DISTRIBUTIONS)}")
    drawn = forward.sample(problem, distribution, seed, device, peer=peer)
    q, shape = drawn.tensors["q"], torch.Size(shapes(problem)["q"])
    generator = torch.Generator("cpu" if shape.numel() <= forward.CPU_LIMIT else device)
    generator.manual_seed(SEED_OF_DO + seed)
    do = torch.randn(shape, generator=generator, device=generator.device)
    if distribution in SHIFTED:
        do += 0.5
    o, lse = truth(q, drawn.tensors["k"], drawn.tensors["v"], **drawn.scalars)
    derived = {"o": o.to(q.dtype), "do": do.to(q.dtype).to(device), "lse": lse.float()}
    return Sample(distribution, seed, {**drawn.tensors, **derived}, drawn.scalars)
