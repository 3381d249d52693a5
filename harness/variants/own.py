"""A Python function of the user's behind the same call as a twin (harness.catalog.own says what it may be)."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.catalog import own
from harness.catalog.cases import Case
from harness.variants import interpreter, machine_code
from harness.variants.errors import Unsupported
from harness.variants.variant import Call, Variant

if TYPE_CHECKING:
    from torch import Tensor


class OwnFunction(Variant):
    """`launch` copies what the function returns; `bind` leaves it where the function put it, which costs nothing. lse
    is None, and at `launch` as it was, where the function returns none."""

    def __init__(self, case: Case, on: str) -> None:
        super().__init__(case)
        assert case.kernel is not None
        self.in_triton = own.uses_triton(case.kernel)
        if on == "cpu" and case.problem.dtype == "bf16" and self.in_triton:
            raise Unsupported("Triton's interpreter multiplies bf16 wrongly without an error; use fp16")
        self.name = case.kernel.name
        self.device = "cpu" if on == "cpu" else "cuda"
        self.files = own.files(case.kernel)
        self.function = _import(case.kernel)
        self.takes_out = "out" in _parameters(self.function)
        self.programs = _Programs() if on == "gpu" and importlib.util.find_spec("triton") else None

    def launch(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> None:
        call = self.bind(q, k, v, o, lse, scale=scale, causal=causal)
        with self._watched():
            out, out_lse = self.programs.watch(call) if self.programs else call()
        if out is not o:
            o.copy_(out)
        if out_lse is not None:
            lse.copy_(out_lse)

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        self._check(q, k, v, o, lse, scale, causal)
        options = {"causal": causal, "scale": scale, **({"out": o} if self.takes_out else {})}

        def call() -> tuple[Tensor, Tensor | None]:
            try:
                answer = self.function(q, k, v, **options)
            except NotImplementedError as declined:
                raise Unsupported(f"{self.name}: {declined}") from None
            return self._parts(answer, o, lse)

        return call

    def code(self) -> dict[str, Any] | None:
        """The `code` of the largest Triton program of the last launch; what else a function may call has no code to
        read here."""
        if self.programs is None or (path := self.programs.largest()) is None:
            return None
        return machine_code.read(path, smem_bytes=json.loads(path.with_suffix(".json").read_text())["shared"])

    def _watched(self) -> AbstractContextManager[None]:
        """On a CPU, ends a loop of the user's Python code that goes on for ever."""
        if self.device != "cpu":
            return nullcontext()
        steps, seconds = interpreter.most_steps_of_any(self.problem, in_triton=self.in_triton)
        return interpreter.watched(self.files, steps, seconds=seconds)

    def _parts(self, answer: Any, o: Tensor, lse: Tensor) -> tuple[Tensor, Tensor | None]:
        """(o, lse or None) of what the function returned. Raises TypeError and ValueError."""
        if answer is None and self.takes_out:
            return o, None
        out, *rest = (answer or (None,)) if isinstance(answer, tuple | list) else (answer,)
        for name, got, expected in (("o", out, o), *(("lse", one, lse) for one in rest[:1] if one is not None)):
            if not hasattr(got, "shape") or not hasattr(got, "dtype"):
                raise TypeError(f"{self.name}: got {type(got).__name__} for {name}, expected a torch.Tensor")
            if (got.shape, got.dtype) != (expected.shape, expected.dtype):
                raise ValueError(
                    f"{self.name}: got {name} of {tuple(got.shape)} {got.dtype}, expected {tuple(expected.shape)} "
                    f"{expected.dtype}"
                )
            if got.device != expected.device:
                raise ValueError(
                    f"{self.name}: got {name} on {got.device}, expected {expected.device}, where q, k and v are; "
                    "return a tensor that lies there"
                )
        return out, rest[0] if rest else None


def _parameters(function: Callable[..., Any]) -> Collection[str]:
    """The names of its parameters; none where Python cannot see them, as in a function of an extension."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()


def _import(kernel: own.Kernel) -> Callable[..., Any]:
    """The function of a fresh module. Raises what importing the file raises, and TypeError for what is no function."""
    assert kernel.function is not None
    sys.path.insert(0, str(kernel.path.parent))  # for what lies beside it
    name = f"own_{kernel.path.stem}"
    spec = importlib.util.spec_from_file_location(name, kernel.path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, kernel.function)
    if not callable(function):
        raise TypeError(
            f"{kernel.name}: got {type(function).__name__}, expected a function attend(q, k, v, *, causal, scale)"
        )
    return function


class _Programs:
    """The Triton programs that a call launches. Triton tells when it loads one, which is once in a process, and when it
    launches one."""

    loaded: ClassVar[dict[int, Path]] = {}
    """Handle of each program that this process loaded -> its cubin."""

    def __init__(self) -> None:
        from triton import knobs

        self._hooks = knobs.runtime
        self._hooks.kernel_load_end_hook.add(_note_program)
        self.launched: set[int] = set()
        self._waits = True

    def watch(self, call: Call) -> Any:
        """What the call returns. The first one waits for each of its launches: where one of them does not end, the
        process stands at its line."""
        self.launched.clear()
        self._hooks.launch_enter_hook.add(self._note_launch)
        if self._waits:
            self._hooks.launch_exit_hook.add(_wait)
        try:
            return call()
        finally:
            self._waits = False
            self._hooks.launch_enter_hook.remove(self._note_launch)
            self._hooks.launch_exit_hook.remove(_wait)

    def largest(self) -> Path | None:
        """The cubin of the last watched call that has most instructions."""
        cubins = [self.loaded[handle] for handle in self.launched if handle in self.loaded]
        return max(cubins, key=lambda path: machine_code.census(path)["instructions"], default=None)

    def _note_launch(self, metadata: Any) -> None:
        self.launched.add(metadata.get().get("function"))


def _wait(_metadata: Any) -> None:
    import torch

    if not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()


def _note_program(_module: int, function: int, _name: str, metadata_group: dict[str, str], _hash: str) -> None:
    for name, path in metadata_group.items():
        if name.endswith(".cubin"):
            _Programs.loaded[function] = Path(path)
