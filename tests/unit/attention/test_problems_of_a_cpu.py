"""What `check --on cpu` launches: each way to mix up batches, heads and lengths is wrong on one of its problems; and
what it launches of a user's kernel beside, here and on a GPU."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from experiments.attention.correctness import WITHOUT_GPU
from harness.measure.own import problems
from harness.operators.attention.operator import OPERATOR
from harness.operators.attention.problem import Problem
from harness.rows.tables import untried
from tests.support import wrong_kernels
from tests.support.launches import gate
from tests.support.wrong_kernels import Tiled

pytestmark = pytest.mark.slow


def found(kernels: Sequence[Tiled], problems: Sequence[Problem]) -> list[Tiled]:
    """Those that are wrong on one of the problems; problem by problem, since the gate remembers the exact results of
    one."""
    right = [*kernels]
    for problem in problems:
        options = {"device": "cpu", "repeats": 2, "padded": WITHOUT_GPU.padded}
        right = [one for one in right if gate(one, problem, distributions=WITHOUT_GPU.distributions, **options).passed]
    return [one for one in kernels if one not in right]


class TwoHeadsShareKeys(Tiled):
    """Takes every group for one of two heads."""

    def head_kv(self, head, group, heads_kv):
        return min(head // 2, heads_kv - 1) if group > 1 else head


class FirstKeysWithoutGroups(Tiled):
    """Where no heads share keys, takes the first head's for all."""

    def head_kv(self, head, group, heads_kv):
        return head // group if group > 1 else 0


class ScoresIn16Bits(Tiled):
    def p_of(self, exponent):
        return torch.exp2(exponent.half().float())


class SmallWeightsAreZero(Tiled):
    def p_of(self, exponent):
        return torch.exp2(exponent).masked_fill(exponent < -14, 0.0)


class NoWeightIsSmall(Tiled):
    """Clamps exponents where a cheap exp2 would fail."""

    def p_of(self, exponent):
        return torch.exp2(exponent.clamp(min=-20.0)).masked_fill(exponent == -torch.inf, 0.0)


class OneKeyBeyondTheTileDropped(Tiled):
    def starts(self, seq_kv):
        return super().starts(seq_kv - (seq_kv % 64 == 1))


class KeysAfter512Dropped(Tiled):
    def starts(self, seq_kv):
        return super().starts(min(seq_kv, 512))


class RowBeyondTheTileTwice(Tiled):
    def store(self, o, lse, o_values, lse_values):
        if len(o) == 65:
            o_values[64] = o_values[63]
        super().store(o, lse, o_values, lse_values)


class MaximumFromMinusTenThousand(Tiled):
    lowest = -1e4


class InfinityTestedOnlyWhereMasked(Tiled):
    """As it is without a mask."""

    def new_max(self, row_max, s):
        found = super().new_max(row_max, s)
        return found.masked_fill(found == -math.inf, math.nan)


class FormatOfOneKind(Tiled):
    """Makes P what fp16 holds, whatever the dtype."""

    def product(self, p, v_tile):
        wrong = v_tile.half().view(torch.bfloat16) if v_tile.dtype == torch.bfloat16 else v_tile
        return super().product(p, wrong)


MIX_UPS = (
    wrong_kernels.BatchOfVForK,
    wrong_kernels.FirstBatchOnly,
    wrong_kernels.WrongHeadForGroupedHeads,
    wrong_kernels.HeadsOfOtherGroups,
    wrong_kernels.CausalTopLeft,
    wrong_kernels.RowsWithoutKeysDivided,
    wrong_kernels.LastRowsBeyondKeysUnwritten,
    wrong_kernels.LastRaggedRowsUnwritten,
    wrong_kernels.ReadsBeyondRaggedTail,
    wrong_kernels.ValuesBeyondRaggedTail,
    wrong_kernels.ScaleIgnored,
    TwoHeadsShareKeys,
    FirstKeysWithoutGroups,
    ScoresIn16Bits,
    SmallWeightsAreZero,
    NoWeightIsSmall,
    FormatOfOneKind,
)


def test_each_mix_up_is_found_on_a_cpu() -> None:
    kernels = [kernel() for kernel in MIX_UPS]
    assert found(kernels, WITHOUT_GPU.problems) == kernels


def test_other_lengths_find_what_whole_tiles_do_not() -> None:
    kernels = [OneKeyBeyondTheTileDropped(), KeysAfter512Dropped(), RowBeyondTheTileTwice()]
    assert found(kernels, WITHOUT_GPU.problems) == []
    assert found(kernels, OPERATOR.other_problems) == kernels


def test_a_right_kernel_is_right_on_a_cpu() -> None:
    """Its tile as it is, and one as long as most problems; test_numerics tries others."""
    kernels = [Tiled(), Tiled()]
    kernels[1].block_n = 256
    assert found(kernels, (*WITHOUT_GPU.problems, *OPERATOR.other_problems)) == []


HOLES = {
    "bf16, causal": lambda p: p.dtype == "bf16" and p.causal,
    "bf16, grouped heads": lambda p: p.dtype == "bf16" and p.heads > p.heads_kv,
    "bf16, (batch, seq, heads, head_dim)": lambda p: p.dtype == "bf16" and p.layout == "bshd",
    "more than 641 keys": lambda p: p.seq_kv > 641,
    "head_dim 256": lambda p: p.head_dim == 256,
    "more than two batches": lambda p: p.batch > 2,
    "more than six heads": lambda p: p.heads > 6,
}
"""Where kernels that returned zeros passed `check`."""


@pytest.mark.parametrize("hole", HOLES)
def test_a_users_kernel_is_tried_where_zeros_passed(hole: str) -> None:
    assert sum(map(HOLES[hole], problems(OPERATOR, "cpu"))) >= 2


def test_a_users_kernel_is_tried_on_20_problems_with_most_pairs_in_twice_the_work() -> None:
    tried = problems(OPERATOR, "cpu")
    assert len(tried) == 20
    before = [*WITHOUT_GPU.problems, *OPERATOR.other_problems[:2]]
    assert sum(p.flops for p in tried) <= 2 * sum(p.flops for p in before)
    said = untried(tried)
    assert "tried: batch 1, 2, 3, 5; heads 1, 2, 6, 8; heads_kv 1, 2, 8; " in said
    assert "dtype bf16, fp16; causal False, True; layout bhsd, bshd\nnot tried: other values, and " in said
    cells = [(p.dtype, p.causal, p.layout, p.head_dim) for p in tried]
    for one, other in itertools.combinations(range(4), 2):
        met = {(cell[one], cell[other]) for cell in cells}
        assert len(met) == len({cell[one] for cell in cells}) * len({cell[other] for cell in cells})
    (longest,) = set(problems(OPERATOR, "gpu")) - set(tried)
    assert longest.seq_kv == 4096


def test_a_row_maximum_that_begins_with_a_large_number_is_found() -> None:
    """Right on all inputs of the twins' gates."""
    problem = Problem(1, 2, 1, 65, 128, 64, "fp16", True)
    kernel = MaximumFromMinusTenThousand()
    assert gate(kernel, problem, distributions=OPERATOR.distributions, device="cpu", repeats=1).passed
    assert not gate(kernel, problem, distributions=("far_below",), device="cpu", repeats=1).passed
    assert gate(Tiled(), problem, distributions=("far_below",), device="cpu", repeats=1).passed


def test_a_row_of_minus_infinity_without_a_mask_is_found() -> None:
    """Right on all inputs of the twins' gates."""
    problem = Problem(1, 2, 1, 65, 200, 64, "fp16", False)
    kernel = InfinityTestedOnlyWhereMasked()
    assert gate(kernel, problem, distributions=OPERATOR.distributions, device="cpu", repeats=1).passed
    verdict = gate(kernel, problem, distributions=("hidden_keys",), device="cpu", repeats=1)
    assert (verdict.passed, verdict.check) == (False, "finite")
    for causal in (False, True):
        right = gate(Tiled(), replace(problem, causal=causal), distributions=("hidden_keys",), device="cpu", repeats=1)
        assert right.passed, right.reason
