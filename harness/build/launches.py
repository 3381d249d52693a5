"""What a file of the user's launches: the programs of its `run()`, compiled for a GPU that need not be here.

In a Python that may have another Triton. Without a GPU nothing is launched: a tensor of a GPU has a shape and no
memory. Here `take` launches for real too, and each program's arguments are kept, so that it can be launched again by
cubins that other Tritons made (harness.measure.launches).
"""

import ast
import contextlib
import inspect
import os
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Program:
    """`build()` gives the triton.compiler.CompiledKernel, or raises what its compiler did. `arguments`: of its first
    launch, by name; `grid` counts programs."""

    name: str
    build: Callable[[], Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = ()


def take(
    path: str,
    kernel: str = "",
    signature: str | None = None,
    options: Mapping[str, int] | None = None,
    arch: str | None = None,
) -> tuple[list[Program], Exception | None]:
    """The programs that `run()` of the file launches, each once, and what ended it early; or the one of a `signature`.
    `arch`: of the GPU that they are compiled for, such as sm_90a; None launches them on the one here."""
    from triton.backends.compiler import GPUTarget

    sys.path.insert(0, os.path.dirname(path))
    target = GPUTarget("cuda", int(re.sub(r"\D", "", arch)), 32) if arch else None
    found: list[Program] = []
    ended = None
    with _captured(target, found):
        try:
            names = runpy.run_path(path)
            if signature is None:
                names["run"]()
            else:
                found.append(Program(kernel, lambda: _of_signature(names[kernel], signature, options or {}, target)))
        except Exception as error:
            ended = error
    return found, ended


@contextlib.contextmanager
def _captured(target: Any, found: list[Program]) -> Iterator[None]:
    """Within, launched kernels are noted in `found`. With a target they are compiled and not launched. An autotuned
    kernel is launched in every configuration."""
    import triton
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    compile_and_launch = JITFunction.run
    known: list[object] = []

    def note(name: str, build: Callable[[], Any], arguments: Mapping[str, Any], grid: tuple[int, ...]) -> None:
        times = 1 + sum(one.name.partition(" ")[0] == name for one in found)
        found.append(Program(name if times == 1 else f"{name} {times}", build, arguments, grid))

    def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **named: Any) -> Any:
        name = self.__name__
        try:
            compiled = compile_and_launch(self, *args, grid=grid, warmup=warmup or target is not None, **named)
        except Exception as error:
            note(name, _raising(error), {}, ())
            return None
        if all(compiled is not one for one in known):
            known.append(compiled)
            own = {option: value for option, value in named.items() if option in self.arg_names}
            bound = inspect.signature(self.fn).bind(*args, **own)
            bound.apply_defaults()
            size = grid({**bound.arguments, **named}) if callable(grid) else grid
            note(name, lambda: compiled, bound.arguments, tuple(size) if isinstance(size, tuple | list) else (size,))
        return compiled

    def every_configuration(self: Any, *args: Any, **named: Any) -> Any:
        return [self.fn.run(*args, **named, **config.all_kwargs()) for config in self.configs][-1]

    JITFunction.run, Autotuner.run = run, every_configuration
    elsewhere: AbstractContextManager[Any] = contextlib.nullcontext()
    if target is not None:
        says = {"get_current_device": 0, "get_current_stream": 0, "get_current_target": target}
        triton.runtime.driver.set_active(SimpleNamespace(**{name: _saying(answer) for name, answer in says.items()}))
        elsewhere = _without_gpu(target)
    with elsewhere:
        yield


def _without_gpu(target: Any) -> AbstractContextManager[Any]:
    """Torch as on a machine with this GPU, whose tensors have shapes and no memory; nothing where there is no torch."""
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        return contextlib.nullcontext()

    def elsewhere(value: Any) -> Any:
        return "meta" if isinstance(value, str | torch.device) and str(value).startswith("cuda") else value

    class OnMeta(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.cuda:
                return args[0].to("meta")
            named = {name: elsewhere(value) for name, value in (kwargs or {}).items()}
            return function(*map(elsewhere, args), **named)

    major, minor = divmod(target.arch, 10)
    about = SimpleNamespace(multi_processor_count=132, major=major, minor=minor, name="none")
    says = {"is_available": True, "current_device": 0, "synchronize": None, "get_device_capability": (major, minor)}
    for name, answer in {**says, "get_device_properties": about}.items():
        setattr(torch.cuda, name, _saying(answer))
    return OnMeta()


def _of_signature(function: Any, signature: str, options: Mapping[str, int], target: Any) -> Any:
    """The kernel compiled for types such as "*fp16:16, i32, 64": of each parameter its type, with the number that it is
    a multiple of, or the value of a constant."""
    import triton
    from triton.compiler import ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    kinds, constants, attrs = {}, {}, {}
    for place, (name, written) in enumerate(zip(function.arg_names, signature.split(","), strict=True)):
        kind, _, multiple = written.strip().partition(":")
        if re.fullmatch(r"-?[\d.]+|True|False|None", kind):
            kinds[name], constants[name] = "constexpr", ast.literal_eval(kind)
        else:
            kinds[name] = kind
            if multiple:
                attrs[place,] = [["tt.divisibility", int(multiple)]]
    front_end = GluonASTSource if function.is_gluon() else ASTSource
    return triton.compile(front_end(function, kinds, constants, attrs), target=target, options=dict(options))


def _raising(error: Exception) -> Callable[[], Any]:
    def build() -> Any:
        raise error

    return build


def _saying(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer
