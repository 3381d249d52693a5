"""Is this output right? Limits taken from data.

The rule: in every block of query rows, over all batches and heads,
    max |O - truth| <= 2 * the yardstick's + half an ulp of the largest |O|,
    |O - truth|_2   <= 1.5 * the yardstick's + a sixteenth of a rounding of |O|_2,
and |LSE - truth| is within what fp32 arithmetic may do. Factors of 2 and 1.5, because a kernel rounds P against its
running max, which draws other roundings than the yardstick's: right kernels were seen to need 1.1 of the norm, while
accumulating O in 16 bits over 2048 keys takes 2 to 4.
"""

import math
from collections.abc import Mapping

import torch

from harness.operators.attention.reference import BlockNorms, Expected, blocks
from harness.operators.precision import check_finite
from harness.operators.protocol import Failure, Verdict

MAX_ERROR_FACTOR = 2.0
REL_L2_FACTOR = 1.5


def compare(outputs: Mapping[str, torch.Tensor | None], expected: Expected, *, peer: bool = False) -> Verdict:
    o = outputs["o"]
    assert o is not None
    return judge_peer(o, expected) if peer else judge(o, outputs.get("lse"), expected)


def judge(o: torch.Tensor, lse: torch.Tensor | None, expected: Expected) -> Verdict:
    """The verdict on one output. Checks, in order: masked_rows, finite, max_error, rel_l2, lse."""
    difference = o.float() - expected.o
    errors, floor = BlockNorms.of(difference), floor_of(expected.size, o.dtype, expected.moved_by_scores)
    visible = ~expected.hidden
    failure = (
        _check_hidden_rows(o, lse, expected.hidden)
        or check_finite("O", o)
        or (None if lse is None else check_finite("LSE", lse[..., visible]))
        or check_errors("O", errors, difference, expected.size, expected.yardstick, floor)
    )
    numerics = figures(errors, expected.size, expected.yardstick, expected.pytorch, floor)
    if lse is not None:
        lse_error = (lse.double() - expected.lse)[..., visible].abs().max().item()
        if failure is None and not lse_error <= expected.lse_tolerance:
            failure = "lse", f"LSE is off by {lse_error:.3g}, allowed {expected.lse_tolerance:.3g}"
        numerics |= {"lse_max_abs": number(lse_error), "lse_tolerance": expected.lse_tolerance}
    return Verdict.of(failure, numerics)


def judge_peer(o: torch.Tensor, expected: Expected) -> Verdict:
    """The verdict on a library's O: finite, max_error, rel_l2. Rows that see no key are its own affair.

    Where plain PyTorch is worse than the yardstick, the limits rest on it: a library may round the scores, too.
    """
    difference, floor = o.float() - expected.o, floor_of(expected.size, o.dtype, expected.moved_by_scores)
    difference[:, :, expected.hidden] = 0.0
    errors, standard = BlockNorms.of(difference), looser(expected.yardstick, expected.pytorch)
    failure = check_finite("O", o[:, :, ~expected.hidden]) or check_errors(
        "O", errors, difference, expected.size, standard, floor
    )
    return Verdict.of(failure, figures(errors, expected.size, expected.yardstick, expected.pytorch, floor))


def looser(yardstick: BlockNorms, pytorch: BlockNorms) -> BlockNorms:
    """The larger errors of both. fmax, because a plain PyTorch that overflowed sets no standard."""
    return BlockNorms(torch.fmax(yardstick.max_abs, pytorch.max_abs), torch.fmax(yardstick.l2, pytorch.l2))


def floor_of(size: BlockNorms, dtype: torch.dtype, moved: float = 0.0) -> BlockNorms:
    """What the limits allow beside the yardstick, which is 0 where all outputs fall on representable values.

    Max: half an ulp of the largest |O|, as its final rounding may go the other way. That is also more than fp32 scores
    summed in another order can move O: 1e-4 of it at the largest logits. L2: a sixteenth of a rounding per element.
    Both grow by the share that rounded scores move where scores are larger than that.
    """
    info = torch.finfo(dtype)
    exponent = torch.frexp(size.max_abs.clamp_min(info.tiny)).exponent - 1
    return BlockNorms(torch.exp2(exponent) * info.eps / 2 + size.max_abs * moved, size.l2 * (info.eps / 32 + moved))


def _check_hidden_rows(o: torch.Tensor, lse: torch.Tensor | None, hidden: torch.Tensor) -> Failure | None:
    wrong_lse = lse is not None and bool((lse[..., hidden] != -torch.inf).any())
    if wrong_lse or bool((o[:, :, hidden] != 0).any()):
        return "masked_rows", f"expected O = 0 and LSE = -inf in the first {int(hidden.sum())} rows, which see no key"
    return None


def check_errors(
    name: str, errors: BlockNorms, difference: torch.Tensor, size: BlockNorms, standard: BlockNorms, floor: BlockNorms
) -> Failure | None:
    """The first rule that a block breaks, told of the block that breaks it most."""
    rows = blocks(torch.arange(difference.shape[2]))
    limit = MAX_ERROR_FACTOR * standard.max_abs + floor.max_abs
    if not bool((errors.max_abs <= limit).all()):
        b = int((errors.max_abs / limit).argmax())
        part = difference[:, :, rows[b][0] : rows[b][-1] + 1].abs()
        batch, head, row, column = (int(i) for i in torch.unravel_index(part.argmax(), part.shape))
        return "max_error", (
            f"{name} is off by {errors.max_abs[b]:.3g} in batch {batch}, head {head}, row {int(rows[b][0]) + row}, "
            f"column {column}; allowed {limit[b]:.3g} = "
            f"{MAX_ERROR_FACTOR:g} * {standard.max_abs[b]:.3g} + {floor.max_abs[b]:.3g}"
        )
    limit = REL_L2_FACTOR * standard.l2 + floor.l2
    if not bool((errors.l2 <= limit).all()):
        b = int((errors.l2 / limit).argmax())
        return "rel_l2", (
            f"{name} has relative L2 error {errors.l2[b] / size.l2[b]:.3g} in rows {int(rows[b][0])} to "
            f"{int(rows[b][-1])}; allowed {limit[b] / size.l2[b]:.3g} = {REL_L2_FACTOR:g} * "
            f"{standard.l2[b] / size.l2[b]:.3g} + rounding"
        )
    return None


def figures(
    errors: BlockNorms, size: BlockNorms, yardstick: BlockNorms, pytorch: BlockNorms, floor: BlockNorms
) -> dict[str, float | None]:
    """Over all blocks; `*_used` is the worst block's share of its limit, 1 being just allowed."""
    whole = torch.linalg.vector_norm(size.l2)
    max_limit = MAX_ERROR_FACTOR * yardstick.max_abs + floor.max_abs
    l2_limit = REL_L2_FACTOR * yardstick.l2 + floor.l2
    found = {
        "max_abs": errors.max_abs.amax(),
        "rel_l2": torch.linalg.vector_norm(errors.l2) / whole,
        "max_error_used": (errors.max_abs / max_limit).amax(),
        "rel_l2_used": torch.where(size.l2 > 0, errors.l2 / l2_limit, 0.0).amax(),
        "yardstick": yardstick.max_abs.amax(),
        "yardstick_rel_l2": torch.linalg.vector_norm(yardstick.l2) / whole,
        "floor": floor.max_abs.amax(),
        "pytorch_max_abs": pytorch.max_abs.amax(),
        "pytorch_rel_l2": torch.linalg.vector_norm(pytorch.l2) / whole,
    }
    return {name: number(float(value)) for name, value in found.items()}


def number(value: float) -> float | None:
    """For JSON, which has no NaN and no infinity."""
    return value if math.isfinite(value) else None
