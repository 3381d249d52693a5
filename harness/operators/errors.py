"""The ways in which loading or launching a case can fail."""

from typing import Any

LACKS = "it has no parameter"
"""Begins what `adapt` raises for a problem that a user's function lacks a parameter for. Tables then show how the
operator calls one."""


class Unsupported(Exception):
    """A backend declines a cell; the message is the reason."""


class LaunchError(RuntimeError):
    """A launcher returned a CUDA error."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Diagnosed(LaunchError):
    """The CPU runtime found a bug; `lines` name it, with the kernel's line, thread, barrier: `deadlock: nobody ...`."""

    def __init__(self, lines: list[str], code: int) -> None:
        super().__init__("\n".join(lines), code)
        self.lines = lines


class DataRace(Diagnosed):
    """The CPU runtime found two accesses to one place that nothing orders; the first line names the buffer."""


class CompileError(RuntimeError):
    """A kernel does not compile; the message names the technique and holds the compiler's words."""


def check_returned(function: str, name: str, got: Any, expected: Any) -> None:
    """Raises TypeError and ValueError for what a user's function should not return as the output `name`."""
    if not hasattr(got, "shape") or not hasattr(got, "dtype"):
        raise TypeError(f"{function}: got {type(got).__name__} for {name}, expected a torch.Tensor")
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        raise ValueError(
            f"{function}: got {name} of {tuple(got.shape)} {got.dtype}, expected {tuple(expected.shape)} "
            f"{expected.dtype}"
        )
    if got.device != expected.device:
        raise ValueError(
            f"{function}: got {name} on {got.device}, expected {expected.device}, where the inputs are; "
            "return a tensor that lies there"
        )
