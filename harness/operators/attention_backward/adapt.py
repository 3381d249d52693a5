"""A user's function, gradients(q, k, v, o, lse, do, *, causal, scale), as one of tensors and scalars that returns dq,
dk and dv."""

from collections.abc import Callable, Mapping
from typing import Any

from harness.operators.errors import check_returned
from harness.operators.protocol import Scalars, Tensors


def adapt(
    function: Callable[..., Any], name: str, *, takes_out: bool
) -> Callable[[Tensors, Scalars], Mapping[str, Any]]:
    """Where it has a parameter `out`, that is (dq, dk, dv). The call raises TypeError and ValueError, which begin with
    `name`, for what the function should not return."""
    outputs = ("dq", "dk", "dv")

    def call(tensors: Tensors, scalars: Scalars) -> dict[str, Any]:
        expected = {output: tensors[output] for output in outputs}
        options = {**scalars, **({"out": tuple(expected.values())} if takes_out else {})}
        answer = function(*(tensors[each] for each in ("q", "k", "v", "o", "lse", "do")), **options)
        if answer is None and takes_out:
            return expected
        if not isinstance(answer, tuple | list) or len(answer) != len(outputs):
            raise TypeError(f"{name}: got {type(answer).__name__}, expected a tuple (dq, dk, dv)")
        for (output, wanted), got in zip(expected.items(), answer, strict=True):
            check_returned(name, output, got, wanted)
        return dict(zip(outputs, answer, strict=True))

    return call
