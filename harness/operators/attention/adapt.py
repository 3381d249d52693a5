"""A user's function, attend(q, k, v, *, causal, scale), as one of tensors and scalars that returns o and lse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.operators.protocol import Scalars, Tensors


def adapt(
    function: Callable[..., Any], name: str, *, takes_out: bool
) -> Callable[[Tensors, Scalars], Mapping[str, Any]]:
    """lse is None where the function returns none. Where it has a parameter `out`, that is o. The call raises TypeError
    and ValueError, which begin with `name`, for what the function should not return."""

    def call(tensors: Tensors, scalars: Scalars) -> dict[str, Any]:
        o, lse = tensors["o"], tensors["lse"]
        options = {**scalars, **({"out": o} if takes_out else {})}
        answer = function(tensors["q"], tensors["k"], tensors["v"], **options)
        if answer is None and takes_out:
            return {"o": o, "lse": None}
        out, *rest = (answer or (None,)) if isinstance(answer, tuple | list) else (answer,)
        _check(name, "o", out, o)
        if rest and rest[0] is not None:
            _check(name, "lse", rest[0], lse)
        return {"o": out, "lse": rest[0] if rest else None}

    return call


def _check(function: str, name: str, got: Any, expected: Any) -> None:
    if not hasattr(got, "shape") or not hasattr(got, "dtype"):
        raise TypeError(f"{function}: got {type(got).__name__} for {name}, expected a torch.Tensor")
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        raise ValueError(
            f"{function}: got {name} of {tuple(got.shape)} {got.dtype}, expected {tuple(expected.shape)} "
            f"{expected.dtype}"
        )
    if got.device != expected.device:
        raise ValueError(
            f"{function}: got {name} on {got.device}, expected {expected.device}, where q, k and v are; "
            "return a tensor that lies there"
        )
