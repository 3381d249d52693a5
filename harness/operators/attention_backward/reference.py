"""What the gradients are (truth), how near 16-bit operands can come (yardstick), how near plain PyTorch comes.

Truth is the formula over the inputs of a launch, o and lse among them: what rounding did to those is nobody's error
here. P = exp(scale S - LSE), which is 0 where LSE is -inf, dS = P (dP - rowsum(dO O)), dV = P^T dO, dK = scale dS^T Q,
dQ = scale dS K; a head of K and V has the sum over its query heads. All walk over heads and query rows in chunks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from harness.operators.attention.numerics import looser
from harness.operators.attention.reference import FP64_FLOPS, BlockNorms, HarnessError, chunks, softmax
from harness.operators.attention_backward.problem import Problem
from harness.operators.precision import ieee_matmul
from harness.operators.protocol import Sample, Tensors

GRADIENTS = ("dq", "dk", "dv")
ULPS = (0, 1, -1)
"""By so many ulps of fp32 the scores of a yardstick are off. Limits rest on the largest error of the three.

Where all keys share large columns, as in negative_scores, dQ has nothing there but the roundings of dS, and few keys
with large P decide their sum. Where the dS of one lies near the middle of two 16-bit numbers, the last bit of an fp32
score decides which of the two it becomes.
"""


@dataclass(frozen=True)
class Gradient:
    """One gradient of a sample, and the norms of what came near it, in blocks of its rows."""

    truth: Tensor
    """In fp32, which is far finer than the 16-bit roundings judged."""
    size: BlockNorms
    yardstick: BlockNorms
    """The largest over ULPS."""
    pytorch: BlockNorms
    arithmetic: BlockNorms
    """Of what fp32 sums of dP and D may be off by."""


@dataclass(frozen=True)
class Expected:
    """What one sample should give; tensors lie on its device."""

    sample: Sample
    gradients: dict[str, Gradient]
    hidden: Tensor
    """Rows of q that see no key: bool (seq_q,)."""
    undecided: Tensor
    """By how much dq may be off where the last bits of scores decide how dS is rounded: fp32, of its shape."""

    @property
    def nbytes(self) -> int:
        truths = (gradient.truth for gradient in self.gradients.values())
        return sum(tensor.nbytes for tensor in (*self.sample.tensors.values(), *truths, self.undecided))


def exact(problem: Problem, sample: Sample) -> Expected:
    """What a sample should give. Raises HarnessError when the answer is not finite."""
    exact_gradients = truth(sample.tensors, **sample.scalars)
    rounded = [yardstick(sample.tensors, **sample.scalars, ulps=ulps) for ulps in ULPS]
    moved = undecided(sample.tensors, **sample.scalars)
    for whose, found in (("truth", exact_gradients), *(("yardstick", one) for one in (*rounded, {"dq": moved}))):
        for name, tensor in found.items():
            if not bool(tensor.isfinite().all()):
                raise HarnessError(
                    f"{whose}'s {name}: got values that are not finite for {problem.slug} from "
                    f"{sample.distribution!r}, expected finite ones; draw inputs that the dtype can hold"
                )
    pytorch, gradients = plain_pytorch(sample.tensors, **sample.scalars), {}
    sums = arithmetic(sample.tensors, **sample.scalars)
    for name in GRADIENTS:
        right = exact_gradients[name].float()
        *careful, plain = (BlockNorms.of(other[name].float() - right) for other in (*rounded, pytorch))
        worst = reduce(looser, careful)
        gradients[name] = Gradient(right, BlockNorms.of(right), worst, plain, BlockNorms.of(sums[name]))
    rows = torch.arange(problem.seq_q, device=right.device)
    hidden = (rows + problem.seq_kv < problem.seq_q) if problem.causal else rows < 0
    return Expected(sample, gradients, hidden, moved)


def truth(tensors: Tensors, *, scale: float, causal: bool, precision: torch.dtype | None = None) -> dict[str, Tensor]:
    """dq, dk and dv, computed and returned in `precision`: fp64, or fp32 above FP64_FLOPS."""
    if precision is None:
        work = 10 * tensors["q"].numel() * tensors["k"].shape[2]
        precision = torch.float64 if work <= FP64_FLOPS else torch.float32
    return _gradients(tensors, scale, causal, precision, lambda product: product)


def yardstick(tensors: Tensors, *, scale: float, causal: bool, ulps: int = 0) -> dict[str, Tensor]:
    """dq, dk and dv in the dtype of q, with the roundings that a tensor-core kernel cannot avoid and no others: fp32
    scores, P and dS rounded to the dtype as operands, fp32 accumulation, one final rounding. Scores are higher by
    `ulps` of scale |q| |k|, the largest that their sums may come to on the way."""
    dtype = tensors["q"].dtype
    found = _gradients(tensors, scale, causal, torch.float32, lambda product: product.to(dtype).float(), ulps)
    return {name: gradient.to(dtype) for name, gradient in found.items()}


def _gradients(
    tensors: Tensors,
    scale: float,
    causal: bool,
    precision: torch.dtype,
    rounded: Callable[[Tensor], Tensor],
    ulps: int = 0,
) -> dict[str, Tensor]:
    q, k, v, o, do = (tensors[name].to(precision) for name in ("q", "k", "v", "o", "do"))
    dots, lse = (do * o).sum(-1, keepdim=True), tensors["lse"].to(precision)[..., None]
    q_norms, k_norms = (torch.linalg.vector_norm(tensor, dim=-1) for tensor in (q, k))
    off = scale * ulps * torch.finfo(torch.float32).eps
    dq, dk, dv = (torch.zeros_like(tensor) for tensor in (q, k, v))
    with ieee_matmul():
        for rows, head, hidden in chunks(q, k, causal, precision.itemsize):
            p = _p(q[rows] @ k[head].T, lse[rows], scale, hidden)
            if ulps:  # exp of a score that is higher by x is P (1 + x)
                p.mul_((q_norms[rows][..., None] * k_norms[head]).mul_(off).add_(1))
            ds = rounded((do[rows] @ v[head].T).sub_(dots[rows]).mul_(p))
            dv[head] += (rounded(p).mT @ do[rows]).sum(0)
            dk[head] += (ds.mT @ q[rows]).sum(0).mul_(scale)
            dq[rows] = (ds @ k[head]).mul_(scale)
    return {"dq": dq, "dk": dk, "dv": dv}


def _p(scores: Tensor, lse: Tensor, scale: float, hidden: Tensor | None) -> Tensor:
    """exp(scale scores - LSE), in place; 0 for a key that the mask hides, and in a row whose LSE is -inf."""
    sees_none = lse == -torch.inf
    p = scores.mul_(scale).sub_(lse.masked_fill(sees_none, 0.0)).exp_()
    return p.masked_fill_(sees_none if hidden is None else sees_none | hidden, 0.0)


def arithmetic(tensors: Tensors, *, scale: float, causal: bool) -> dict[str, Tensor]:
    """By how much an ulp of fp32 of each row's largest dP, in dP - D, moves dq, dk and dv, in fp32.

    Where one key has nearly all of a row's P, its dP is nearly D: dS is a millionth of both, and what they are off by,
    summed in fp32 in whatever order, is more of it than rounding it to 16 bits.
    """
    q, k, v, do = (tensors[name].float() for name in ("q", "k", "v", "do"))
    found = {"dq": torch.zeros_like(q), "dk": torch.zeros_like(k), "dv": torch.zeros_like(v)}
    lse, ulp = tensors["lse"][..., None], torch.finfo(torch.float32).eps
    with ieee_matmul():
        for rows, head, hidden in chunks(q, k, causal, q.element_size()):
            p, dp = _p(q[rows] @ k[head].T, lse[rows], scale, hidden), do[rows] @ v[head].T
            off = p.mul_(dp.abs_().amax(-1, keepdim=True).mul_(ulp))
            found["dq"][rows] = (off @ k[head].abs()).mul_(scale)
            found["dk"][head] += (off.mT @ q[rows].abs()).sum(0).mul_(scale)
    return found


def undecided(tensors: Tensors, *, scale: float, causal: bool) -> Tensor:
    """By how much dq moves where two ulps of fp32 of a score decide how its dS is rounded to the dtype of q, in fp32.

    A kernel has two ulps of scale |q| |k|: tensor cores truncate the sum, and half of one is rounded off scale log2(e),
    another half off LSE in base 2. Each key's are its own, so the moves add up as their norm.
    """
    dtype, ulps = tensors["q"].dtype, 2 * torch.finfo(torch.float32).eps
    q, k, v, o, do = (tensors[name].float() for name in ("q", "k", "v", "o", "do"))
    dots, lse = (do * o).sum(-1, keepdim=True), tensors["lse"][..., None]
    q_norms, k_norms = (torch.linalg.vector_norm(tensor, dim=-1) for tensor in (q, k))
    found = torch.zeros_like(q)
    with ieee_matmul():
        for rows, head, hidden in chunks(q, k, causal, q.element_size()):
            p = _p(q[rows] @ k[head].T, lse[rows], scale, hidden)
            ds = (do[rows] @ v[head].T).sub_(dots[rows]).mul_(p)
            off = (q_norms[rows][..., None] * k_norms[head]).mul_(scale * ulps).mul_(ds)
            moves = (ds + off).to(dtype).float().sub_((ds - off).to(dtype))
            found[rows] = (moves.square_() @ k[head].square()).sqrt_().mul_(abs(scale))
    return found


def plain_pytorch(tensors: Tensors, *, scale: float, causal: bool) -> dict[str, Tensor]:
    """dq, dk and dv as autograd gives them of softmax(scale * q @ k.T) @ v, every intermediate rounded to the dtype of
    q. It makes an O of its own, and adds up the query heads of a head of K and V in 16 bits."""
    q, k, v, do = (tensors[name] for name in ("q", "k", "v", "do"))
    dq, dk, dv = (torch.zeros_like(tensor) for tensor in (q, k, v))
    for rows, head, hidden in chunks(q, k, causal, q.element_size()):
        p = softmax((q[rows] * scale) @ k[head].T, hidden)
        dp = do[rows] @ v[head].T
        ds = (p * (dp.float() - (p * dp.float()).sum(-1, keepdim=True))).to(q.dtype)
        dv[head] += (p.mT @ do[rows]).sum(0)
        dk[head] += (ds.mT @ (q[rows] * scale)).sum(0)
        dq[rows] = (ds @ k[head]) * scale
    return {"dq": dq, "dk": dk, "dv": dv}
