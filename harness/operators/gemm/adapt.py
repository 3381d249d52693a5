"""A user's function, multiply(a, b), multiply(a, b, bias) or multiply(a, b, offsets), as one of tensors and
scalars that returns c."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from harness.operators.errors import LACKS, check_returned
from harness.operators.protocol import Scalars, Tensors


def adapt(
    function: Callable[..., Any], name: str, *, takes_out: bool
) -> Callable[[Tensors, Scalars], Mapping[str, Any]]:
    """Where it has a parameter `out`, that is c; `epilogue` and `dtype` say what becomes of a sum. It declines what it
    lacks a parameter for. The call raises TypeError and ValueError, which begin with `name`, for what the function
    should not return."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of an extension
        signature = inspect.Signature()
    named = [each for each in ("out", "epilogue", "dtype") if each in signature.parameters]
    check = cache(partial(_decline, signature))

    def call(tensors: Tensors, scalars: Scalars) -> dict[str, Any]:
        c = tensors["c"]
        given = {each: tensors[each] for each in ("a", "b", "bias", "offsets") if each in tensors}
        options = {"out": c, "epilogue": scalars["epilogue"], "dtype": c.dtype}
        check(tuple(given), scalars["epilogue"], widens=c.dtype != tensors["a"].dtype)
        answer = function(*given.values(), **{each: options[each] for each in named})
        if answer is None and takes_out:
            return {"c": c}
        check_returned(name, "c", answer, c)
        return {"c": answer}

    return call


def _decline(signature: inspect.Signature, given: tuple[str, ...], epilogue: str, *, widens: bool) -> None:
    """Raises NotImplementedError for a problem that only a function with more parameters can do."""
    if not signature.parameters:
        return
    if epilogue == "gelu" and "epilogue" not in signature.parameters:
        raise NotImplementedError(f"{LACKS} `epilogue` (plain, bias or gelu), without which it does no GELU")
    if widens and not {"dtype", "out"} & set(signature.parameters):
        raise NotImplementedError(f"{LACKS} `dtype` or `out`, which says that c is fp32")
    *first, last = given
    if len(first) > 1:
        places = [each for each in signature.parameters.values() if each.kind is not each.KEYWORD_ONLY]
        if len(places) < len(given) and not any(each.kind is each.VAR_POSITIONAL for each in places):
            raise NotImplementedError(f"{LACKS} for {last}, behind {' and '.join(first)}")
