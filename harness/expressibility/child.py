"""Runs in a Python that has the compiler in question, as a script: compiles one file's forms and writes their texts.

    python child.py REQUEST ANSWER

REQUEST is a JSON file: {"file", "forms"} for a probe, {"root", "twins", "forms"} for kernels of the ladders, where
"twins" has {"module", "problem", "tile", "arch"} for each form. `build(form)` of a probe gives Triton's compiled
kernel; a rival's gives {"ptx", "cubin"}. {"run", "kernel", "signature", "options", "arch"} is a file of the user's: its
programs are those that its `run()` launches, or the one of a signature, and the last form is RUN. ANSWER gets one JSON
line a form, as soon as it is there: an MLIR assertion ends the process. Before each form, a line with its name goes to
stderr, which tells what the compiler said of which form. Standard library and Triton only; torch where a file has it.
"""

import ast
import contextlib
import json
import os
import re
import runpy
import site
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

BEGIN = "form: "
"""What a line of stderr that opens a form starts with."""
RUN = "run()"
"""The form that says how `run()` of a file ended."""


def main(request, answer):
    for place in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        site.addsitedir(place)  # runs the .pth files there: a plugin of Triton's registers itself by one
    with open(answer, "a") as file:
        for form, build in programs(json.loads(Path(request).read_text())):
            print(f"{BEGIN}{form}", file=sys.stderr, flush=True)
            file.write(json.dumps({"form": form, **texts(build)}) + "\n")
            file.flush()


def programs(request):
    """(form, function that compiles it and returns what `build` of a probe does), one after the other."""
    if "run" in request:
        yield from of_file(**{name: value for name, value in request.items() if name != "forms"})
    elif "file" in request:
        sys.path.append(os.path.dirname(request["file"]))
        probe = runpy.run_path(request["file"])
        for form in request["forms"]:
            yield form, lambda form=form: probe["build"](form)
    else:
        sys.path.insert(0, request["root"])  # before another checkout that this Python has installed
        for form in request["forms"]:
            yield form, lambda form=form: twin(**request["twins"][form])


def twin(root, module, problem, tile, arch):
    from importlib import import_module

    if root not in sys.path:  # of an operator that was registered; what all share comes from the checkout
        import triton_kernels

        sys.path.append(root)
        triton_kernels.__path__.append(os.path.join(root, "triton_kernels"))
    tile = SimpleNamespace(**{**tile, "extra": tuple(tile["extra"].items())})
    kernel = import_module(module)
    return getattr(kernel, "twin", kernel).specialize(SimpleNamespace(**problem), None, tile, arch).compile()


def of_file(run, kernel, signature, options, arch):
    """(name, function that returns the compiled kernel or raises) of the programs of a file of the user's, RUN last."""
    from triton.backends.compiler import GPUTarget

    sys.path.insert(0, os.path.dirname(run))
    target = GPUTarget("cuda", int(re.sub(r"\D", "", arch)), 32)
    found: list[tuple[str, object]] = []
    with captured(target, found):
        try:
            names = runpy.run_path(run)
            if signature is None:
                names["run"]()
            else:
                found.append((kernel, lambda: of_signature(names[kernel], signature, options, target)))
            ended = dict
        except Exception as error:
            ended = raising(error)
    seen = []
    for name, build in found:
        seen.append(name)
        yield name + (f" {seen.count(name)}" if seen.count(name) > 1 else ""), build
    yield RUN, ended


def raising(error):
    def build():
        raise error

    return build


@contextlib.contextmanager
def captured(target, found):
    """Within, kernels are compiled for the target instead of launched, each program once, into `found`, and tensors of
    a GPU have no memory. An autotuned kernel is compiled in every configuration."""
    import triton
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    compile_and_launch = JITFunction.run
    known: list[object] = []

    def run(self, *args, grid, warmup=True, **named):
        try:
            compiled = compile_and_launch(self, *args, grid=grid, warmup=True, **named)
        except Exception as error:
            found.append((self.__name__, raising(error)))
            return None
        if all(compiled is not one for one in known):
            known.append(compiled)
            found.append((self.__name__, lambda: compiled))
        return compiled

    def every_configuration(self, *args, **named):
        return [self.fn.run(*args, **named, **config.all_kwargs()) for config in self.configs][-1]

    JITFunction.run, Autotuner.run = run, every_configuration
    says = {"get_current_device": 0, "get_current_stream": 0, "get_current_target": target}
    triton.runtime.driver.set_active(SimpleNamespace(**{name: answering(answer) for name, answer in says.items()}))
    with without_gpu(target):
        yield


def without_gpu(target):
    """Torch as on a machine with this GPU, whose tensors have shapes and no memory; nothing where there is no torch."""
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        return contextlib.nullcontext()

    def elsewhere(value):
        return "meta" if isinstance(value, (str, torch.device)) and str(value).startswith("cuda") else value

    class OnMeta(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), named=None):
            if function is torch.Tensor.cuda:
                return args[0].to("meta")
            named = {name: elsewhere(value) for name, value in (named or {}).items()}
            return function(*map(elsewhere, args), **named)

    major, minor = divmod(target.arch, 10)
    about = SimpleNamespace(multi_processor_count=132, major=major, minor=minor, name="none")
    says = {"is_available": True, "current_device": 0, "synchronize": None, "get_device_capability": (major, minor)}
    for name, answer in {**says, "get_device_properties": about}.items():
        setattr(torch.cuda, name, answering(answer))
    return OnMeta()


def answering(answer):
    return lambda *_: answer


def of_signature(function, signature, options, target):
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
    return triton.compile(front_end(function, kinds, constants, attrs), target=target, options=options)


def texts(build):
    """The texts of a form that compiles; the exception of one that does not."""
    try:
        kernel = build()
    except Exception as error:
        return {"words": f"{type(error).__name__}: {error}"}
    if not kernel:  # the run of a file has none
        return {}
    asm = kernel if isinstance(kernel, dict) else kernel.asm
    sass, usage = disassembled(asm["cubin"])
    registers, stack = re.findall(r"REG:(\d+) STACK:(\d+)", usage)[0]
    launched = {} if asm is kernel else {"shared": kernel.metadata.shared, "warps": kernel.metadata.num_warps}
    facts = {**launched, "registers": registers, "stack": stack}
    return {
        **{name: asm[name] for name in ("ttgir", "ptx") if name in asm},
        "sass": sass,
        "facts": "\n".join(f"{name} {value}" for name, value in facts.items()),
    }


def disassembled(cubin):
    """The machine code and the resource usage, by this Triton's disassembler: another's may not know its format."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin", delete=False) as file:
        file.write(cubin)
    try:
        said = [
            subprocess.run([tool, option, file.name], capture_output=True, text=True, check=True).stdout
            for option in ("-sass", "-res-usage")
        ]
    finally:
        os.unlink(file.name)
    return said


if __name__ == "__main__":
    main(*sys.argv[1:])
