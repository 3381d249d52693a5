"""A Python function of the user's behind the same call as a twin (harness.catalog.own says what it may be)."""

import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from harness.build import machine_code
from harness.build.variant import Call, Variant
from harness.catalog import own
from harness.catalog.cases import Case
from harness.operators.errors import Unsupported
from harness.operators.protocol import Scalars, Tensors


class OwnFunction(Variant):
    """`launch` copies what the function returns; `bind` leaves it where the function put it, which costs nothing. An
    output that it does not return is None, and at `launch` as it was."""

    def __init__(self, case: Case, on: str) -> None:
        super().__init__(case)
        assert case.kernel is not None
        if on == "cpu" and case.problem.dtype == "bf16" and own.uses_triton(case.kernel):
            raise Unsupported("Triton's interpreter multiplies bf16 wrongly without an error; use fp16")
        self.name = case.kernel.name
        self.device = "cpu" if on == "cpu" else "cuda"
        function = _import(case.kernel, self.operator.signature)
        self.call = self.operator.adapt(function, self.name, takes_out="out" in _parameters(function))
        self.programs = _Programs() if on == "gpu" and importlib.util.find_spec("triton") else None

    def launch(self, tensors: Tensors, scalars: Scalars) -> None:
        call = self.bind(tensors, scalars)
        written = self.programs.watch(call) if self.programs else call()
        for name, out in written.items():
            if out is not None and out is not tensors[name]:
                tensors[name].copy_(out)

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        self._check(tensors, scalars)

        def call() -> Mapping[str, Any]:
            try:
                return self.call(tensors, scalars)
            except NotImplementedError as declined:
                raise Unsupported(f"{self.name}: {declined}") from None

        return call

    def code(self) -> dict[str, Any] | None:
        """The `code` of the largest Triton program of the last launch; what else a function may call has no code to
        read here."""
        if self.programs is None or (path := self.programs.largest()) is None:
            return None
        return machine_code.read(path, smem_bytes=json.loads(path.with_suffix(".json").read_text())["shared"])


def _parameters(function: Callable[..., Any]) -> Collection[str]:
    """The names of its parameters; none where Python cannot see them, as in a function of an extension."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()


def _import(kernel: own.Kernel, signature: str) -> Callable[..., Any]:
    """The function of a fresh module. Raises what importing the file raises, and TypeError for what is no function."""
    assert kernel.function is not None
    sys.path.insert(0, str(kernel.path.parent))  # for what lies beside it
    sys.path.append(os.getcwd())  # last: what lies there takes the place of nothing
    name = f"own_{kernel.path.stem}"
    spec = importlib.util.spec_from_file_location(name, kernel.path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, kernel.function)
    if not callable(function):
        raise TypeError(f"{kernel.name}: got {type(function).__name__}, expected a function {signature}")
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
        return max(cubins, key=lambda path: machine_code.disassemble(path).census["instructions"], default=None)

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
