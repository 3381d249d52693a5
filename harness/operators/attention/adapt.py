"""A user's function, attend(q, k, v, *, causal, scale), as one of tensors and scalars that returns o and lse."""

from collections.abc import Callable, Mapping
from typing import Any

from harness.operators.errors import check_returned
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
        check_returned(name, "o", out, o)
        if rest and rest[0] is not None:
            check_returned(name, "lse", rest[0], lse)
        return {"o": out, "lse": rest[0] if rest else None}

    return call
