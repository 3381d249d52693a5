"""A right attention kernel in plain PyTorch, and wrong ones that each differ from it in one method.

`Tiled` does what a tensor-core kernel does: tiles of keys, online softmax in fp32, P rounded to the dtype, O in fp32.
A wrong kernel carries the problem that brings its fault out, and says on which distributions it is right all the same.
"""

import math
from dataclasses import replace

import torch

from harness.operators.attention.problem import Problem

LOG2_E = 1.4426950408889634
SQUARE = Problem(1, 2, 2, 128, 128, 64, "bf16")
CAUSAL = replace(SQUARE, causal=True)
RAGGED = replace(SQUARE, seq_q=100, seq_kv=100)
BEFORE = ("normal", "shifted", "outliers", "large_logits", "constant_rows")
"""Distributions whose scale is 1 / sqrt(head_dim) and whose rows have a score above -50."""


class Tiled:
    """launch(q, k, v, o, lse, *, scale, causal); the methods are the steps that wrong kernels replace."""

    problem = SQUARE
    block_n = 64
    o_dtype = torch.float32
    padded = False
    lowest = masked = -math.inf
    right_on: tuple[str, ...] = ()
    """Distributions on which a wrong kernel's answer is right, or as right as a right kernel's may be."""
    right_in: tuple[str, ...] = ()
    """Number formats in which it is right."""

    def __call__(self, q, k, v, o, lse, *, scale, causal):
        group = q.shape[1] // k.shape[1]
        for batch in range(q.shape[0]):
            for head in range(q.shape[1]):
                kv = batch, self.head_kv(head, group, k.shape[1])
                result = self.attend(q[batch, head], k[kv], v[kv], self.scale(scale), causal)
                self.store(o[batch, head], lse[batch, head], *result)

    def attend(self, q, k, v, scale, causal):
        """O (seq_q, head_dim) and LSE (seq_q,) of one head."""
        seq_q, seq_kv = len(q), len(k)
        row_max = torch.full((seq_q, 1), self.lowest)
        row_sum = torch.zeros(seq_q, 1)
        o = torch.zeros(q.shape, dtype=self.o_dtype)
        last_key = self.last_key(torch.arange(seq_q)[:, None], seq_q, seq_kv) if causal else None
        for start in self.starts(seq_kv):
            k_tile, v_tile = self.load(k, start), self.load(v, start)
            s = q.float() @ self.fragment(k_tile).float().T * (scale * LOG2_E)
            if causal:
                s = s.masked_fill(torch.arange(start, start + len(k_tile)) > last_key, self.masked)
            new_max = self.new_max(row_max, s)
            shift = new_max.masked_fill(new_max == -math.inf, 0.0)
            rescale, p = torch.exp2(row_max - shift), self.p_of(s - shift)
            row_sum = self.rescale_sum(row_sum, rescale) + self.summed(p, v.dtype).sum(1, keepdim=True)
            o = (self.rescale_o(o, rescale) + self.product(p, v_tile)).to(self.o_dtype)
            row_max = new_max
        lse = (row_max / LOG2_E + row_sum.log()).squeeze(1)
        return o.float() / row_sum.masked_fill(row_sum == 0, 1.0), lse

    def head_kv(self, head, group, heads_kv):
        return head // group

    def scale(self, scale):
        return scale

    def starts(self, seq_kv):
        return range(0, seq_kv, self.block_n)

    def load(self, matrix, start):
        return matrix[start : start + self.block_n]

    def fragment(self, k_tile):
        return k_tile

    def last_key(self, row, seq_q, seq_kv):
        return row + seq_kv - seq_q

    def new_max(self, row_max, s):
        return torch.maximum(row_max, s.amax(1, keepdim=True))

    def product(self, p, v_tile):
        return p.to(v_tile.dtype).float() @ v_tile.float()

    def p_of(self, exponent):
        return torch.exp2(exponent)

    def summed(self, p, dtype):
        return p

    def rescale_sum(self, row_sum, rescale):
        return row_sum * rescale

    def rescale_o(self, o, rescale):
        return o.float() * rescale

    def store(self, o, lse, o_values, lse_values):
        o.copy_(o_values)
        lse.copy_(lse_values)


class UniformSoftmax(Tiled):
    right_on = ("constant_rows",)  # equal keys make the softmax uniform; only LSE could tell, and it is left right here

    def attend(self, q, k, v, scale, causal):
        _, lse = super().attend(q, k, v, scale, causal)
        return v.float().mean(0).expand(q.shape), lse


class NoRescaleOfO(Tiled):
    right_on = ("constant_rows",)  # equal keys: the row max never moves, so every rescale is by 1

    def rescale_o(self, o, rescale):
        return o.float()


class LastKeyTileSkipped(Tiled):
    def starts(self, seq_kv):
        return super().starts(seq_kv)[:-1]


class LastRaggedRowsUnwritten(Tiled):
    problem = RAGGED

    def store(self, o, lse, o_values, lse_values):
        whole = len(o) // 64 * 64
        super().store(o[:whole], lse[:whole], o_values[:whole], lse_values[:whole])


class ScaleFivePercentOff(Tiled):
    def scale(self, scale):
        return scale * 1.05


class ScaleMissing(Tiled):
    def scale(self, scale):
        return 1.0


class CausalOffByOne(Tiled):
    problem = CAUSAL

    def last_key(self, row, seq_q, seq_kv):
        return super().last_key(row, seq_q, seq_kv) + 1


class CausalTopLeft(Tiled):
    problem = replace(CAUSAL, seq_q=64)

    def last_key(self, row, seq_q, seq_kv):
        return row


class NanInOneRow(Tiled):
    def store(self, o, lse, o_values, lse_values):
        super().store(o, lse, o_values, lse_values)
        o[-1] = math.nan


class StaleOutput(Tiled):
    """Keeps its first answer per address of q, which new inputs at that address do not change."""

    def __init__(self):
        self.answers = {}

    def __call__(self, q, k, v, o, lse, *, scale, causal):
        if q.data_ptr() not in self.answers:
            super().__call__(q, k, v, o, lse, scale=scale, causal=causal)
            self.answers[q.data_ptr()] = o.clone(), lse.clone()
        self.store(o, lse, *self.answers[q.data_ptr()])


class KeyTilesTransposed(Tiled):
    """Every 8x8 block of K transposed: ldmatrix where ldmatrix.trans belongs, or the other way round."""

    def fragment(self, k_tile):
        keys, dim = k_tile.shape
        return k_tile.reshape(keys // 8, 8, dim // 8, 8).transpose(1, 3).reshape(keys, dim)


class WarpRowsSwapped(Tiled):
    """One warp writes fragment rows r and r + 8 of its 16 rows to each other's place."""

    right_on = ("constant_rows",)  # equal keys: without a causal mask all rows of O are equal

    def store(self, o, lse, o_values, lse_values):
        rows = torch.arange(len(o))
        rows[16:32] = rows[16:32].roll(8)
        super().store(o, lse, o_values[rows], lse_values)


class SumWithoutRescale(Tiled):
    right_on = ("constant_rows",)  # equal keys: the row max never moves, so every rescale is by 1

    def rescale_sum(self, row_sum, rescale):
        return row_sum


class OIn16Bits(Tiled):
    problem = Problem(1, 2, 1, 128, 2048, 64, "bf16")
    # One key carries a row, so few tiles move it: few roundings, no more than the limit leaves for those of P.
    right_on = ("large_logits",)

    def attend(self, q, k, v, scale, causal):
        self.o_dtype = q.dtype
        return super().attend(q, k, v, scale, causal)


class WrongHeadForGroupedHeads(Tiled):
    problem = replace(SQUARE, heads=4)

    def head_kv(self, head, group, heads_kv):
        return head % heads_kv


class ReadsBeyondRaggedTail(Tiled):
    """Loads whole tiles: the rows after the last key belong to the next head, or to nobody."""

    problem = RAGGED

    def load(self, matrix, start):
        return matrix.as_strided((self.block_n, matrix.shape[1]), matrix.stride(), matrix[start].storage_offset())


class ValuesBeyondRaggedTail(ReadsBeyondRaggedTail):
    """Hides the keys after the last one, but multiplies their V by P = 0, and 0 * NaN is NaN."""

    def last_key(self, row, seq_q, seq_kv):
        return row.new_full(row.shape, seq_kv - 1)

    def attend(self, q, k, v, scale, causal):
        return super().attend(q, k, v, scale, causal=True)


class NanBeyondRaggedTailDropped(ReadsBeyondRaggedTail):
    """Loads whole tiles; maxima that drop NaN give no weight to a key that is NaN, but one of numbers gets some."""

    def new_max(self, row_max, s):
        return super().new_max(row_max, s.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf))

    def p_of(self, exponent):
        return super().p_of(exponent).nan_to_num(nan=0.0)

    def product(self, p, v_tile):
        return super().product(p, v_tile.nan_to_num(nan=0.0))


class ScaleIgnored(Tiled):
    """Takes 1 / sqrt(head_dim) whatever it was given."""

    right_on = BEFORE

    def scale(self, scale):
        return self.problem.scale


class RunningMaxFromZero(Tiled):
    """Begins the running max with 0 in place of minus infinity."""

    lowest = 0.0
    right_on = BEFORE


class MaskOfMinusFifty(Tiled):
    """Hides a key with a score of -50 in place of minus infinity."""

    problem = CAUSAL
    masked = -50.0 * LOG2_E
    right_on = BEFORE


class RunningMaxFromMinus200(Tiled):
    """Begins the running max with -200: a row of lower scores alone is lost."""

    lowest = -200.0 * LOG2_E
    right_on = BEFORE


class MaxOfFirstTile(Tiled):
    """Keeps the first tile's max as the running max, so that nothing is ever rescaled."""

    right_on = BEFORE

    def new_max(self, row_max, s):
        first = super().new_max(row_max, s)
        return torch.where(row_max == -math.inf, first, row_max)


class ComputesInFp16(Tiled):
    """Takes bf16 for fp16: what fp16 cannot hold is infinite or 0."""

    right_on = ("normal", "shifted", "large_logits", "constant_rows", "negative_scores")
    right_in = ("fp16",)

    def load(self, matrix, start):
        return super().load(matrix, start).half().to(matrix.dtype)

    def attend(self, q, k, v, scale, causal):
        return super().attend(q.half().to(q.dtype), k, v, scale, causal)


class StridesOfKForV(Tiled):
    """Walks V with the strides of K. Those made of it walk `of` with strides of `taken`, in `dims`; where that is None,
    rows follow each other."""

    problem = replace(SQUARE, batch=2)
    padded = True
    of, taken, dims = "v", "k", (0, 1, 2)

    def __call__(self, q, k, v, o, lse, **options):
        given = {"q": q, "k": k, "v": v, "o": o}
        tensor, other, strides = given[self.of], given.get(self.taken), [*given[self.of].stride()]
        for dim in self.dims:
            strides[dim] = other.stride(dim) if other is not None else tensor.shape[3]
        given[self.of] = tensor.as_strided(tensor.shape, strides)
        super().__call__(*given.values(), lse, **options)


class StridesOfQForK(StridesOfKForV):
    of, taken = "k", "q"


class StridesOfQForO(StridesOfKForV):
    of, taken = "o", "q"


class BatchOfVForK(StridesOfKForV):
    of, taken, dims = "k", "v", (0,)


class RowsOfQForO(StridesOfKForV):
    of, taken, dims = "o", "q", (2,)


class RowsOfKForV(StridesOfKForV):
    dims = (2,)


class RowsOfHeadDim(StridesOfKForV):
    of, taken, dims = "q", None, (2,)


class FirstBatchOnly(Tiled):
    """Takes K and V of the first batch for all."""

    problem = replace(SQUARE, batch=2)

    def __call__(self, q, k, v, o, lse, *, scale, causal):
        super().__call__(q, k[:1].expand(k.shape), v[:1].expand(v.shape), o, lse, scale=scale, causal=causal)


class HeadsOfOtherGroups(Tiled):
    """Takes the groups in reverse."""

    problem = replace(SQUARE, heads=4)

    def head_kv(self, head, group, heads_kv):
        return heads_kv - 1 - head // group


class RowsWithoutKeysDivided(Tiled):
    """Divides by the sum of a row also where the row sees no key."""

    problem = replace(CAUSAL, seq_q=192)

    def store(self, o, lse, o_values, lse_values):
        super().store(o, lse, o_values.masked_fill((lse_values == -math.inf)[:, None], math.nan), lse_values)


class LastRowsBeyondKeysUnwritten(Tiled):
    """Has as many rows as keys."""

    problem = replace(SQUARE, seq_q=192)

    def store(self, o, lse, o_values, lse_values):
        rows = min(len(o), self.seq_kv)
        super().store(o[:rows], lse[:rows], o_values[:rows], lse_values[:rows])

    def attend(self, q, k, v, scale, causal):
        self.seq_kv = len(k)
        return super().attend(q, k, v, scale, causal)


class FiniteMask(Tiled):
    """Hides a key with a score of -10000: small enough, but a row that sees no key gets the mean of V."""

    problem = replace(CAUSAL, seq_q=192)
    masked = -1e4 * LOG2_E


class HalvesOfEqualWeight(Tiled):
    """Attends to each half of the keys for itself and takes the mean, whatever their log-sum-exps say."""

    right_on = ("constant_rows",)  # equal keys: both halves weigh the same

    def attend(self, q, k, v, scale, causal):
        half = len(k) // 2
        (o, lse), (o2, lse2) = (
            super(HalvesOfEqualWeight, self).attend(q, *each, scale, causal)
            for each in ((k[:half], v[:half]), (k[half:], v[half:]))
        )
        return (o + o2) / 2, torch.logaddexp(lse, lse2)


class ValuesInOrderOfReversedKeys(Tiled):
    """Takes the last tile of keys first, and of values the first."""

    right_on = ("constant_rows",)  # equal keys: whose P a value gets does not matter

    def load(self, matrix, start):
        self.turn = not self.turn
        return super().load(matrix, start if self.turn else len(matrix) - self.block_n - start)

    turn = False


def around(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """The element `offset` places after the last one (positive) or before the first one (negative)."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((1,), (1,), tensor.storage_offset() + (last if offset > 0 else 0) + offset)


class OutputTruncated(Tiled):
    """Rounds O toward zero."""

    def store(self, o, lse, o_values, lse_values):
        rounded = o_values.to(o.dtype)
        toward_zero = (rounded.view(torch.int16) - 1).view(o.dtype)
        super().store(o, lse, torch.where(rounded.abs() > o_values.abs(), toward_zero, rounded), lse_values)


class ScaleIn16Bits(Tiled):
    problem = replace(SQUARE, head_dim=128)  # 1 / sqrt(64) is a number of 16 bits

    def attend(self, q, k, v, scale, causal):
        return super().attend(q, k, v, torch.tensor(scale).to(q.dtype).item(), causal)


class LoneKeyOfTailSkipped(Tiled):
    """Forgets a last tile of one key."""

    problem = replace(SQUARE, seq_kv=129)

    def starts(self, seq_kv):
        return range(0, seq_kv - (seq_kv % self.block_n == 1), self.block_n)


class LastHeadOfLastBatchShort(Tiled):
    """Forgets the last key, in one head of twelve."""

    problem = replace(SQUARE, batch=3, heads=4)

    def __call__(self, q, k, v, o, lse, *, scale, causal):
        super().__call__(q, k, v, o, lse, scale=scale, causal=causal)
        self.store(o[-1, -1], lse[-1, -1], *self.attend(q[-1, -1], k[-1, -1, :-1], v[-1, -1, :-1], scale, causal))


class LseOfAnotherHead(Tiled):
    problem = replace(SQUARE, heads=4)

    def __call__(self, q, k, v, o, lse, *, scale, causal):
        super().__call__(q, k, v, o, lse, scale=scale, causal=causal)
        lse[:, -1] = lse[:, -2]


WRONG = (*Tiled.__subclasses__(), *StridesOfKForV.__subclasses__(), *ReadsBeyondRaggedTail.__subclasses__())
