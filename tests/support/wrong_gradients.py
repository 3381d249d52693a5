"""A right backward pass of attention in plain PyTorch, and wrong ones that each differ from it in one method.

`Tiled` does what a tensor-core kernel does in one pass: tiles of keys, each with all tiles of queries, P and dS rounded
to the dtype, dK and dV in fp32, dQ summed in scratch memory, which holds NaN before a launch. A wrong kernel carries
the problem that brings its fault out, and the check that finds it.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from harness.operators.attention_backward import arguments
from harness.operators.attention_backward.problem import Problem

SQUARE = Problem(1, 2, 2, 128, 128, 64, "bf16")
CAUSAL = Problem(1, 2, 2, 128, 128, 64, "bf16", True)
GROUPED = Problem(1, 4, 2, 128, 128, 64, "fp16")
RAGGED = Problem(1, 2, 1, 100, 100, 64, "fp16")
UNSEEING = Problem(1, 1, 1, 210, 136, 64, "bf16", True)
MANY_KEYS = Problem(1, 1, 1, 64, 8192, 64, "bf16")
TILE = 64


class Tiled:
    """launch(tensors, scalars); the methods are the steps that wrong kernels replace."""

    problem = SQUARE
    check = ""
    """The check that finds the fault."""
    distributions: tuple[str, ...] = ()
    """Those in which the fault shows, where it does not in all."""

    def __call__(self, tensors: dict[str, Tensor], scalars: dict[str, float]) -> None:
        q, k = tensors["q"], tensors["k"]
        batch, heads, seq_q, head_dim = q.shape
        heads_kv, seq_kv = k.shape[1:3]
        problem = Problem(batch, heads, heads_kv, seq_q, seq_kv, head_dim)
        scratch = torch.full((arguments.scratch_bytes(problem),), 0xFF, dtype=torch.uint8).view(torch.float32)
        rows = arguments.scratch_rows(problem)
        count = batch * heads * rows
        sums, dots, lse = scratch.split((count * head_dim, count, count))
        self.sums, self.dots = sums.view(batch, heads, rows, head_dim), dots.view(batch, heads, rows)
        self.lse = lse.view(batch, heads, rows)
        self.before(tensors)
        group = heads // heads_kv
        for b in range(batch):
            for kv in range(heads_kv):
                for start in range(0, seq_kv, TILE):
                    dk, dv = torch.zeros(TILE, head_dim), torch.zeros(TILE, head_dim)
                    for head in range(kv * group, (kv + 1) * group):
                        dk, dv = self.of_head(dk, dv)
                        for first in range(self.first_tile(start, seq_q, seq_kv, scalars["causal"]), seq_q, TILE):
                            self.step(tensors, scalars, (b, head, kv), first, start, dk, dv)
                    keys = slice(start, min(start + TILE, seq_kv))
                    tensors["dk"][b, kv, keys] = (dk * self.scale_of_dk(scalars["scale"]))[: seq_kv - start]
                    tensors["dv"][b, kv, keys] = dv[: seq_kv - start]
        tensors["dq"].copy_(self.sums[:, :, :seq_q] * self.scale_of_dq(scalars["scale"]))

    def step(self, tensors, scalars, heads, first, start, dk, dv) -> None:
        b, head, kv = heads
        dtype = tensors["q"].dtype
        q, do = (self.load(tensors[name][b, head], first) for name in ("q", "do"))
        k, v = (self.load(tensors[name][b, kv], start) for name in ("k", "v"))
        p = self.p_of(scalars["scale"] * (q @ k.T), self.lse[b, head, first : first + TILE, None])
        hidden = self.hidden(first, start, tensors["q"].shape[2], tensors["k"].shape[2], scalars["causal"])
        p = p.masked_fill(hidden, 0.0)
        ds = (p * (do @ v.T - self.dots[b, head, first : first + TILE, None])).to(dtype).float()
        dv += p.to(dtype).float().T @ do
        dk += ds.T @ q
        self.add(self.sums[b, head, first : first + TILE], ds @ k, dtype)

    def before(self, tensors) -> None:
        """D and LSE of whole tiles, and zeros for dQ."""
        seq_q = tensors["q"].shape[2]
        self.sums.zero_()
        self.dots.zero_()
        self.lse.fill_(math.inf)
        self.dots[:, :, :seq_q] = (tensors["do"].float() * tensors["o"].float()).sum(-1)
        self.lse[:, :, :seq_q] = tensors["lse"].masked_fill(tensors["lse"] == -math.inf, math.inf)

    def load(self, tensor, start):
        """A tile, zeros beyond the end."""
        tile = torch.zeros(TILE, tensor.shape[1])
        part = tensor[start : start + TILE]
        tile[: len(part)] = part.float()
        return tile

    def p_of(self, s, lse):
        return torch.exp(s - lse)

    def hidden(self, first, start, seq_q, seq_kv, causal):
        query, key = torch.arange(first, first + TILE)[:, None], torch.arange(start, start + TILE)
        beyond = key >= seq_kv
        return beyond | (key > query + seq_kv - seq_q) if causal else beyond

    def first_tile(self, start, seq_q, seq_kv, causal):
        """The first row of the first tile of queries that sees this tile of keys."""
        return max(0, start + seq_q - seq_kv) // TILE * TILE if causal else 0

    def of_head(self, dk, dv):
        """Sums go on over the query heads of a group."""
        return dk, dv

    def add(self, sums, part, dtype) -> None:
        sums += part

    def scale_of_dk(self, scale):
        return scale

    def scale_of_dq(self, scale):
        return scale


class SumsNotZeroed(Tiled):
    check = "finite"

    def before(self, tensors) -> None:
        super().before(tensors)
        self.sums.fill_(math.nan)


class ScratchBeyondTheLastQuery(Tiled):
    """D and LSE of a ragged tile's missing rows are what lay there."""

    problem = RAGGED
    check = "finite"

    def before(self, tensors) -> None:
        dots, lse, seq_q = self.dots.clone(), self.lse.clone(), tensors["q"].shape[2]
        super().before(tensors)
        self.dots[:, :, seq_q:], self.lse[:, :, seq_q:] = dots[:, :, seq_q:], lse[:, :, seq_q:]


class OneHeadOfTheGroup(Tiled):
    problem = GROUPED
    check = "max_error"

    def of_head(self, dk, dv):
        return torch.zeros_like(dk), torch.zeros_like(dv)


class MissingKeysScoreZero(Tiled):
    """exp(0 - LSE) overflows where LSE is near -120, and infinity times a zero of K is NaN."""

    problem = RAGGED
    check = "finite"
    distributions = ("negative_scores",)

    def hidden(self, first, start, seq_q, seq_kv, causal):
        return torch.zeros(TILE, TILE, dtype=torch.bool)


class SumsIn16Bits(Tiled):
    problem = MANY_KEYS
    check = "max_error"

    def add(self, sums, part, dtype) -> None:
        sums.copy_((sums + part).to(dtype))


class DqWithoutScale(Tiled):
    check = "max_error"

    def scale_of_dq(self, scale):
        return 1.0


class DkWithoutScale(Tiled):
    check = "max_error"

    def scale_of_dk(self, scale):
        return 1.0


class DkScaledTwice(Tiled):
    check = "max_error"

    def scale_of_dk(self, scale):
        return scale * scale


class PNotNormalized(Tiled):
    check = "max_error"

    def p_of(self, s, lse):
        return torch.exp(s).masked_fill(lse == math.inf, 0.0)


class ScoresOffBySixteenUlps(Tiled):
    """One key's are higher, the next one's lower."""

    problem = replace(SQUARE, dtype="fp16")
    check = "max_error"
    distributions = ("negative_scores",)
    ulps = 16

    def p_of(self, s, lse):
        off = torch.full((TILE,), self.ulps * torch.finfo(torch.float32).eps)
        off[1::2] *= -1
        return super().p_of(s, lse) * (1 + off * s.abs())


class NaturalLseInBase2(Tiled):
    check = "max_error"

    def p_of(self, s, lse):
        return torch.exp2(s / math.log(2) - lse)


class WithoutD(Tiled):
    check = "max_error"

    def before(self, tensors) -> None:
        super().before(tensors)
        self.dots.zero_()


class UnseeingRowsOverflow(Tiled):
    """An LSE of -inf, taken as it is."""

    problem = UNSEEING
    check = "masked_rows"

    def before(self, tensors) -> None:
        super().before(tensors)
        self.lse[:, :, : tensors["q"].shape[2]] = tensors["lse"]

    def hidden(self, first, start, seq_q, seq_kv, causal):
        sees = torch.arange(first, first + TILE)[:, None] + seq_kv >= seq_q
        return super().hidden(first, start, seq_q, seq_kv, causal) & sees


class DiagonalTileSkipped(Tiled):
    problem = CAUSAL
    check = "max_error"

    def first_tile(self, start, seq_q, seq_kv, causal):
        return super().first_tile(start, seq_q, seq_kv, causal) + TILE


WRONG = tuple(Tiled.__subclasses__())
