"""A user's function, multiply(a, b), multiply(a, b, bias) or multiply(a, b, offsets), as one of tensors and
scalars that returns c."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.operators.protocol import Scalars, Tensors


def adapt(
    function: Callable[..., Any], name: str, *, takes_out: bool
) -> Callable[[Tensors, Scalars], Mapping[str, Any]]:
    """Where it has a parameter `out`, that is c. The call raises TypeError and ValueError, which begin with `name`, for
    what the function should not return."""

    def call(tensors: Tensors, scalars: Scalars) -> dict[str, Any]:
        c = tensors["c"]
        given = [tensors[each] for each in ("a", "b", "bias", "offsets") if each in tensors]
        answer = function(*given, **({"out": c} if takes_out else {}))
        if answer is None and takes_out:
            return {"c": c}
        if not hasattr(answer, "shape") or not hasattr(answer, "dtype"):
            raise TypeError(f"{name}: got {type(answer).__name__} for c, expected a torch.Tensor")
        if (answer.shape, answer.dtype, answer.device) != (c.shape, c.dtype, c.device):
            raise ValueError(
                f"{name}: got c of {tuple(answer.shape)} {answer.dtype} on {answer.device}, expected {tuple(c.shape)} "
                f"{c.dtype} on {c.device}"
            )
        return {"c": answer}

    return call
