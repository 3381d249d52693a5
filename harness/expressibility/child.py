"""Runs in a Python that has the compiler in question, as a script: compiles one file's forms and writes their texts.

    python child.py REQUEST ANSWER

REQUEST is a JSON file: {"file", "forms"} for a probe, {"root", "twins", "forms"} for kernels of the ladders, where
"twins" has {"module", "problem", "tile", "arch"} for each form, and {"root", "run", ...} for a file of the user's, with
what harness.build.launches.take takes. `build(form)` of a probe gives Triton's compiled kernel; a rival's gives {"ptx",
"cubin"}. The programs of a file are those that its `run()` launches; its last form is RUN. ANSWER gets one JSON line a
form, as soon as it is there: an MLIR assertion ends the process. Before each form, a line with its name goes to stderr,
which tells what the compiler said of which form. Standard library and Triton only, but for a file of the user's.
"""

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
    asked = json.loads(Path(request).read_text())
    with open(answer, "a") as file:
        for form, build in programs(asked):
            print(f"{BEGIN}{form}", file=sys.stderr, flush=True)
            file.write(json.dumps({"form": form, **texts(build, launched_later="run" in asked)}) + "\n")
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


def of_file(root, run, kernel, signature, options, arch):
    """The programs of a file of the user's by name, RUN last."""
    sys.path.insert(0, root)
    from harness.build import launches

    found, ended = launches.take(run, kernel, signature, options, arch)
    for program in found:
        yield program.name, program.build
    yield RUN, lambda: ended or {}


def to_launch(kernel):
    """The cubin, and what a launch of it must know (cubin_child.launch), or why it cannot be launched by itself."""
    from harness.build import cubin_child

    source = kernel.src
    described = SimpleNamespace(
        function=source.fn, signature=source.signature, constexprs=source.constants, attrs=source.attrs
    )
    try:
        about = cubin_child.launch(described, kernel)
    except Exception as error:
        about = {"declined": f"{type(error).__name__}: {error}"}
    return {"launch": json.dumps(about), "cubin": kernel.asm["cubin"].hex()}


def texts(build, launched_later=False):
    """The texts of a form that compiles; the exception of one that does not."""
    try:
        kernel = build()
        if isinstance(kernel, Exception):  # that ended the run of a file
            raise kernel
    except Exception as error:
        return {"words": f"{type(error).__name__}: {error}"}
    if not kernel:
        return {}
    asm = kernel if isinstance(kernel, dict) else kernel.asm
    sass, usage = disassembled(asm["cubin"])
    registers, stack = re.findall(r"REG:(\d+) STACK:(\d+)", usage)[0]
    launched = {} if asm is kernel else {"shared": kernel.metadata.shared, "warps": kernel.metadata.num_warps}
    facts = {**launched, "registers": registers, "stack": stack}
    return {
        **{name: asm[name] for name in ("ttgir", "ptx") if name in asm},
        **(to_launch(kernel) if launched_later else {}),
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
