"""Groups of rows: how many rows they get, what is right, and what the comparison refuses."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from harness import operators
from harness.operators.gemm.inputs import offsets
from harness.operators.gemm.problem import Problem
from harness.operators.gemm.shapes import GROUPED_SHAPES

GEMM = operators.get("gemm")
PROBLEM = Problem(400, 24, 64, groups=17)
Groups = list[tuple[int, int, int]]
"""(index of b, first row, row behind the last one)."""


def groups(ends: Tensor) -> Groups:
    rows = [0, *ends.tolist()]
    return [(group, *rows[group : group + 2]) for group in range(len(ends))]


@pytest.mark.parametrize("problem", [PROBLEM, *GROUPED_SHAPES], ids=lambda problem: problem.slug)
def test_rows_are_dealt_by_rank(problem: Problem) -> None:
    rows = offsets(problem, 1).diff(prepend=torch.zeros(1, dtype=torch.int32))
    assert rows.sum() == problem.m
    assert (rows > 0).sum() == problem.busy_groups == problem.groups - problem.groups // 8
    ranked = rows.sort(descending=True).values
    assert problem.m < 4096 or 1.5 < ranked[0] / ranked[1] < 2.7
    assert not torch.equal(offsets(problem, 1), offsets(problem, 2))


def test_least_traffic_leaves_out_b_of_empty_groups() -> None:
    assert PROBLEM.flops == replace(PROBLEM, groups=1).flops
    assert PROBLEM.bytes - replace(PROBLEM, groups=1).bytes == 14 * 2 * 24 * 64


def product(of: Callable[[Groups, int], Groups]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Multiplies the groups as `of` changes them, in their order; it also gets the number of rows."""

    def multiply(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
        c = torch.full((len(a), b.shape[1]), float("nan"))
        for group, begin, end in of(groups(ends), len(a)):
            c[begin:end] = a[begin:end].float() @ b[group].float().T
        return c

    return multiply


def without_the_empty(found: Groups, m: int) -> Groups:
    """Numbers only groups that have rows, so that each one behind an empty one gets another b."""
    return [(number, begin, end) for number, (_, begin, end) in enumerate(one for one in found if one[1] < one[2])]


def over_the_next(found: Groups, m: int) -> Groups:
    """Whole tiles of 16 rows, from the last group to the first: each one's tail overwrites its neighbour."""
    return [(group, begin, min(m, begin + -(begin - end) // 16 * 16 + 16)) for group, begin, end in reversed(found)]


WRONG: dict[str, Callable[[Groups, int], Groups]] = {
    "groups off by one": lambda found, m: [(max(group - 1, 0), begin, end) for group, begin, end in found],
    "rows off by one": lambda found, m: [(group, max(begin - 1, 0), end - (end < m)) for group, begin, end in found],
    "b of the first group": lambda found, m: [(0, begin, end) for _, begin, end in found],
    "an empty group not counted": without_the_empty,
    "tails over the next group": over_the_next,
    "the last rows left out": lambda found, m: [one for one in found if one[2] < m],
}


@pytest.mark.parametrize("problem", [PROBLEM, replace(PROBLEM, dtype="fp16", out="fp32")], ids=lambda one: one.slug)
@pytest.mark.parametrize("distribution", GEMM.distributions)
def test_each_group_has_a_b_of_its_own(distribution: str, problem: Problem) -> None:
    sample = GEMM.inputs(problem, distribution, 0, "cpu")
    expected = GEMM.exact(problem, sample)
    multiply = product(lambda found, m: found)
    dtype = torch.float32 if problem.out == "fp32" else torch.bfloat16
    right = multiply(*(sample.tensors[name] for name in ("a", "b", "offsets")))
    assert GEMM.compare({"c": right.to(dtype)}, expected).passed


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistaken_group_is_refused(wrong: str) -> None:
    for distribution in GEMM.distributions:
        sample = GEMM.inputs(PROBLEM, distribution, 0, "cpu")
        c = product(WRONG[wrong])(*(sample.tensors[name] for name in ("a", "b", "offsets")))
        assert not GEMM.compare({"c": c.bfloat16()}, GEMM.exact(PROBLEM, sample)).passed


def test_other_rungs_decline_groups() -> None:
    from harness.catalog import techniques

    for technique in GEMM.techniques:
        tile = techniques.reference_tile(technique, 0)
        found = techniques.unsupported(technique, "cuda", PROBLEM, tile)
        assert (found is None) == (technique.name == "grouped"), technique.name
