"""What the answer is (truth), how near 16-bit attention can come (yardstick), how near plain PyTorch comes.

All three take q (batch, heads, seq_q, head_dim) and k, v (batch, heads_kv, seq_kv, head_dim) in fp16 or bf16 with any
strides, on any device, and return contiguous tensors. They walk over heads and query rows in chunks, so that memory
does not grow with seq_q * seq_kv. A row that sees no key has O = 0 and LSE = -inf. `exact` gathers what one problem
and distribution should give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from harness.operators.attention.inputs import FURTHER
from harness.operators.attention.problem import Problem
from harness.operators.precision import ieee_matmul
from harness.operators.protocol import Sample

CHUNK_BYTES = 2**28
"""Largest matrix of scores at a time; up to four temporaries of that size live at once."""
FP64_FLOPS = 2**42
"""Truth is fp64 up to this many FLOPs, a few seconds on a GPU with slow fp64."""
BLOCK_ROWS = 64


class HarnessError(RuntimeError):
    """The harness, not the kernel, is at fault: its truth or yardstick is not finite."""


@dataclass(frozen=True)
class BlockNorms:
    """Largest absolute value and L2 norm of a tensor per block of query rows: fp64 (blocks,), on the CPU.

    Blocks, because under a causal mask |O| falls like 1 / sqrt(keys seen): over all rows at once, a wrong late row
    would hide below the rounding error of an early one.
    """

    max_abs: torch.Tensor
    l2: torch.Tensor

    @classmethod
    def of(cls, tensor: torch.Tensor) -> BlockNorms:
        """Of a tensor (batch, heads, seq_q, head_dim)."""
        row_max = torch.linalg.vector_norm(tensor, ord=torch.inf, dim=(0, 1, 3))
        row_l2 = torch.linalg.vector_norm(tensor, dim=(0, 1, 3), dtype=torch.float64)
        return cls(
            torch.stack([rows.amax() for rows in blocks(row_max)]).double().cpu(),
            torch.stack([torch.linalg.vector_norm(rows) for rows in blocks(row_l2)]).cpu(),
        )


def blocks(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Cuts (seq_q,) into blocks of BLOCK_ROWS or a few more, so that no block is too small to have statistics."""
    return rows.tensor_split(max(1, len(rows) // BLOCK_ROWS))


@dataclass(frozen=True)
class Expected:
    """What one sample should give; tensors lie on its device."""

    sample: Sample
    o: torch.Tensor
    """The truth in fp32, which is far finer than the 16-bit roundings judged: (batch, heads, seq_q, head_dim)."""
    lse: torch.Tensor
    """fp64 (batch, heads, seq_q)."""
    lse_tolerance: float
    moved_by_scores: float
    """The share of O by which fp32 roundings of the scores may move it: 0 but for the distributions FURTHER, whose
    scores are so large that this is no longer small beside a rounding of P."""
    hidden: torch.Tensor
    """Rows that see no key: bool (seq_q,)."""
    size: BlockNorms
    yardstick: BlockNorms
    """Of the yardstick's error."""
    pytorch: BlockNorms
    """Of plain PyTorch's error."""

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.sample.tensors.values(), self.o, self.lse))


def exact(problem: Problem, sample: Sample) -> Expected:
    """What a sample should give. Raises HarnessError when the answer is not finite."""
    inputs = tuple(sample.tensors[name] for name in ("q", "k", "v"))
    options = dict(sample.scalars)
    o, lse = truth(*inputs, **options)
    rows = torch.arange(problem.seq_q, device=o.device)
    hidden = (rows + problem.seq_kv < problem.seq_q) if problem.causal else rows < 0
    rounded, rounded_lse = yardstick(*inputs, **options)
    for name, tensor in {
        "truth": o,
        "truth's LSE": lse[..., ~hidden],
        "yardstick": rounded,
        "yardstick's LSE": rounded_lse[..., ~hidden],
    }.items():
        if not bool(tensor.isfinite().all()):
            raise HarnessError(
                f"{name}: got values that are not finite for {problem.slug} from {sample.distribution!r}, expected "
                "finite ones; draw inputs that the dtype can hold"
            )
    o = o.float()
    # fp32 scores differ by the order of summation, and tensor cores truncate: by at most an ulp of |q| |k| for each
    # group of 8 products. 2^-15 covers approximate exp2 and log, and the row sum.
    largest_score = options["scale"] * largest_row(inputs[0]) * largest_row(inputs[1])
    return Expected(
        sample=sample,
        o=o,
        lse=lse.double(),
        lse_tolerance=2**-15 + problem.head_dim / 8 * torch.finfo(torch.float32).eps * largest_score,
        moved_by_scores=torch.finfo(torch.float32).eps * largest_score if sample.distribution in FURTHER else 0.0,
        hidden=hidden,
        size=BlockNorms.of(o),
        yardstick=BlockNorms.of(rounded.float() - o),
        pytorch=BlockNorms.of(plain_pytorch(*inputs, **options).float() - o),
    )


def largest_row(tensor: torch.Tensor) -> float:
    """The largest L2 norm of a row without -inf, whose scores are -inf in any arithmetic."""
    norms = torch.linalg.vector_norm(tensor, dim=-1, dtype=torch.float32)
    return norms.masked_fill(norms.isinf(), 0.0).max().item()


def truth(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    causal: bool,
    precision: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O (batch, heads, seq_q, head_dim) and LSE (batch, heads, seq_q), computed and returned in `precision`.

    That is fp64, or fp32 above FP64_FLOPS: fp32's own error is a thousandth of the 16-bit roundings to be judged.
    """
    if precision is None:
        precision = torch.float64 if 4 * q.numel() * k.shape[2] <= FP64_FLOPS else torch.float32
    return _attend(q, k, v, scale, causal, precision, p_dtype=precision)


def yardstick(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """O in the dtype of q and LSE in fp32, with the roundings that a tensor-core kernel cannot avoid and no others.

    fp32 scores and softmax, P = exp(S - row max) rounded to the dtype, fp32 accumulation, division by the fp32 row sum,
    one final rounding. P is not normalized before it is rounded, as a kernel does not know the row sum yet. A kernel
    that rounds P against its running max draws other roundings of the same relative size, hence the factors in
    numerics; it has no larger ones.
    """
    o, lse = _attend(q, k, v, scale, causal, torch.float32, p_dtype=q.dtype)
    return o.to(q.dtype), lse


def plain_pytorch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scale: float, causal: bool) -> torch.Tensor:
    """O as softmax(scale * q @ k.T) @ v gives it, every intermediate rounded to the dtype of q."""
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    for rows, head, hidden in chunks(q, k, causal, q.element_size()):
        o[rows] = softmax((q[rows] * scale) @ k[head].T, hidden) @ v[head]
    return o


def softmax(scores: torch.Tensor, hidden: torch.Tensor | None) -> torch.Tensor:
    """As PyTorch rounds it, with 0 for hidden keys, also in rows that see no key. Overwrites `scores`."""
    if hidden is None:
        return torch.softmax(scores, -1)
    return torch.softmax(scores.masked_fill_(hidden, -torch.inf), -1).masked_fill_(hidden, 0.0)


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    causal: bool,
    precision: torch.dtype,
    p_dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    o = torch.empty(q.shape, dtype=precision, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=precision, device=q.device)
    with ieee_matmul():
        for rows, head, hidden in chunks(q, k, causal, precision.itemsize):
            p = (q[rows].to(precision) @ k[head].to(precision).T).mul_(scale)
            if hidden is not None:
                p.masked_fill_(hidden, -torch.inf)
            # A row that sees no key has max -inf; against 0 its P is exp(-inf) = 0 instead of NaN.
            row_max = p.amax(-1, keepdim=True)
            row_max.masked_fill_(row_max == -torch.inf, 0.0)
            p.sub_(row_max).exp_()
            row_sum = p.sum(-1, keepdim=True)
            pv = p.to(p_dtype).to(precision) @ v[head].to(precision)
            o[rows] = pv / row_sum.masked_fill(row_sum == 0.0, 1.0)
            lse[rows] = (row_max + row_sum.log()).squeeze(-1)
    return o, lse


def chunks(
    q: torch.Tensor, k: torch.Tensor, causal: bool, element_size: int
) -> Iterator[tuple[tuple[int, slice, slice], tuple[int, int], torch.Tensor | None]]:
    """Index into q and o (rows of the query heads that share a key head), index into k and v, mask of hidden keys."""
    batch, heads, seq_q, _ = q.shape
    heads_kv, seq_kv = k.shape[1:3]
    group = heads // heads_kv
    step = max(1, CHUNK_BYTES // (group * seq_kv * element_size))
    keys = torch.arange(seq_kv, device=q.device)
    for start in range(0, seq_q, step):
        stop = min(start + step, seq_q)
        last_key = torch.arange(start, stop, device=q.device) + (seq_kv - seq_q)
        hidden = keys > last_key[:, None] if causal else None
        for b in range(batch):
            for h in range(heads_kv):
                yield (b, slice(h * group, (h + 1) * group), slice(start, stop)), (b, h), hidden
