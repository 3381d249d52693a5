"""Are these gradients right? Each by attention's rule, in blocks of its own rows: an error of at most twice the
yardstick's largest and 1.5 times its norm, and what rounding an output once may do and fp32 sums of dP and D. An error
of dq is what is left of it without what undecided roundings of dS may do."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from harness.operators.attention import numerics as forward
from harness.operators.attention.reference import BlockNorms
from harness.operators.attention_backward.reference import GRADIENTS, Expected
from harness.operators.precision import check_finite
from harness.operators.protocol import Failure, Verdict


def compare(outputs: Mapping[str, Tensor | None], expected: Expected, *, peer: bool = False) -> Verdict:
    """The verdict on dq, dk and dv. Checks, in order: masked_rows, and of each gradient finite, max_error, rel_l2.

    A peer's limits rest on plain PyTorch's errors where those are larger, and its rows that see no key are its own
    affair. `numerics` are the figures of the gradient that uses most of its limit, and the shares that each uses.
    """
    failure = None if peer else _masked_rows(outputs["dq"], expected.hidden)
    all_figures: dict[str, dict[str, float | None]] = {}
    for name in GRADIENTS:
        got, gradient = outputs[name], expected.gradients[name]
        assert got is not None
        difference = got.float() - gradient.truth
        if peer and name == "dq":
            difference[:, :, expected.hidden] = 0.0
        if name == "dq":  # less what is undecided: errors independent of each other add up as squares
            size, moved = difference.abs(), expected.undecided
            difference = (size - moved).clamp_min_(0).sqrt_().mul_((size + moved).sqrt_())
        errors, rounding = BlockNorms.of(difference), forward.floor_of(gradient.size, got.dtype)
        sums = gradient.arithmetic
        floor = BlockNorms(rounding.max_abs + sums.max_abs, rounding.l2 + sums.l2)
        standard = forward.looser(gradient.yardstick, gradient.pytorch) if peer else gradient.yardstick
        failure = (
            failure
            or check_finite(name, difference)
            or forward.check_errors(name, errors, difference, gradient.size, standard, floor)
        )
        all_figures[name] = forward.figures(errors, gradient.size, gradient.yardstick, gradient.pytorch, floor)
    return Verdict.of(failure, _worst(all_figures))


def _worst(all_figures: dict[str, dict[str, float | None]]) -> dict[str, Any]:
    """None is worse than any number: it is of what is not finite."""

    def used(name: str) -> float:
        share = all_figures[name]["max_error_used"]
        return float("inf") if share is None else share

    shares = {f"{name}_{kind}": all_figures[name][kind] for name in GRADIENTS for kind in ("max_error_used", "rel_l2")}
    return {**all_figures[max(GRADIENTS, key=used)], **shares}


def _masked_rows(dq: Tensor | None, hidden: Tensor) -> Failure | None:
    assert dq is not None
    if bool((dq[:, :, hidden] != 0).any()):
        return "masked_rows", f"expected dq = 0 in the first {int(hidden.sum())} rows, which see no key"
    return None
