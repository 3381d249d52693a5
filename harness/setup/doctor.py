"""What is here, what is missing, what for and how to get it. Runs on a bare Python: python3 -m harness.setup.doctor"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import operators
from harness.machine import cuda_tools
from harness.setup import bootstrap

SET_UP = "`make report` sets it up"
COMPILES = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n__global__ void f(__half* x) { *x = __hadd(*x, *x); }\n"


@dataclass(frozen=True)
class Finding:
    """`found` is a version or a path, or None when the thing is missing or does not work."""

    name: str
    found: str | None
    purpose: str
    remedy: str
    required: bool = False
    """`make report` without a GPU cannot run without it."""
    installed: bool = False
    """By `make report` itself, before anything else."""


def examine() -> list[Finding]:
    if sys.version_info < bootstrap.OLDEST_PYTHON:
        remedy = f"got {platform.python_version()}, expected 3.11 or newer: {bootstrap.GET_PYTHON}"
        return [Finding("Python", None, "everything", remedy, required=True)]
    return [*_python(), *_compilers(), *_gpu(), *_peers()]


def healthy(findings: list[Finding]) -> bool:
    """Whether all is here that is required, or will be installed."""
    return all(finding.found or finding.installed for finding in findings if finding.required)


def _installed(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def _purposes() -> dict[str, str]:
    """Package -> what it is for, as pyproject.toml says beside each dependency."""
    text = (bootstrap.CHECKOUT / "pyproject.toml").read_text()
    return dict(re.findall(r'^ *"([\w-]+)[^"]*", +# (.*)$', text, re.MULTILINE))


def _python() -> Iterator[Finding]:
    yield Finding("Python", f"{platform.python_version()} at {sys.executable}", "everything", "", required=True)
    will_set_up, purposes = bool(bootstrap.lacking()), _purposes()
    for requirement in bootstrap.requirements():
        name = re.split(r"[<>=]", requirement)[0]
        found = None if bootstrap.unmet([requirement]) else _installed(name)
        yield Finding(name, found, purposes[name], f"{requirement}: {SET_UP}", required=True, installed=will_set_up)
    if will_set_up:
        for obstacle in bootstrap.obstacles():
            yield Finding(obstacle.partition(" ")[0], None, "the set-up", obstacle, required=True)
    if triton := _installed("triton"):
        fault = bootstrap.interpreter_fault()
        yield Finding(
            "Triton's interpreter",
            None if fault else f"Triton {triton} with NumPy {_installed('numpy')}",
            "checks of Triton twins without a GPU",
            f"{fault}: {SET_UP}",
        )
    for name, purpose, remedy in (
        ("pytest", "make test", "pip install pytest"),
        ("pytest-benchmark", "tests/regression", "pip install pytest-benchmark"),
        ("pygal", "--benchmark-histogram of tests/regression", "pip install 'pytest-benchmark[histogram]'"),
        ("ruff", "make lint", "pip install ruff"),
        ("ray", "--gpus and --cluster", "pip install -e '.[cluster]'"),
    ):
        yield Finding(name, _installed(name), purpose, remedy)


def nvcc() -> str | None:
    from cuda_kernels import toolchain

    tools = toolchain.find(toolchain.homes())
    return str(tools.bin / "nvcc") if tools else None


def _compilers() -> Iterator[Finding]:
    yield Finding("g++", _release(shutil.which("g++")), "nvcc's host compiler", "apt install g++", required=True)
    compiler, will_set_up = nvcc(), bool(bootstrap.lacking())
    error = _compile_error(compiler) if compiler else None
    yield Finding(
        "nvcc",
        f"{_release(compiler)} at {compiler}" if compiler and not error else None,
        "the CUDA twins",
        f"{error}: nvcc, crt, nvvm and cccl must be of one release, as in pip install -e '.[nvcc]'"
        if error
        else "CUDA toolkit 12.8 or newer on PATH or in $CUDA_HOME, or pip install -e '.[nvcc]'",
        required=True,
        installed=will_set_up and compiler is None,
    )
    ptxas = compiler and str(Path(compiler).resolve().with_name("ptxas"))
    yield Finding("ptxas of nvcc", _release(ptxas), "assembling the CUDA twins", "comes with nvcc")
    spec = importlib.util.find_spec("triton")
    tools = Path(spec.origin).parent / "backends/nvidia/bin" if spec and spec.origin else None
    for tool, name, purpose in (
        ("ptxas", "ptxas of Triton", "assembling the Triton twins"),
        ("ptxas-blackwell", "ptxas of Triton, sm_100 and later", "assembling the Triton twins"),
        ("cuobjdump", "cuobjdump", "reading machine code"),
        ("nvdisasm", "nvdisasm", "reading machine code"),
    ):
        found = _release(str(tools / tool) if tools else None)
        yield Finding(name, found, purpose, "comes with the triton package", required=True, installed=will_set_up)


def _release(tool: str | None) -> str | None:
    """The version that a tool states, or None when it is missing or does not run."""
    if tool is None:
        return None
    try:
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    numbers = re.search(r"\bV(\d+\.\d+\.\d+)", said) or re.search(r"(\d+\.\d+\.\d+)$", said.partition("\n")[0])
    return numbers[1] if numbers else said.partition("\n")[0]


def _compile_error(compiler: str) -> str | None:
    """The first error of a three-line compile, or None when it works."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "doctor.cu"
        source.write_text(COMPILES)
        arch = "-gencode=arch=compute_120a,code=sm_120a"
        command = [compiler, "-cubin", arch, "-o", str(source.with_suffix(".cubin")), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
    said = [line.strip() for line in done.stderr.splitlines() + done.stdout.splitlines() if line.strip()]
    if done.returncode == 0:
        return None
    return next((line for line in said if "error" in line or "fatal" in line), "nvcc failed without a word")


def _gpu() -> Iterator[Finding]:
    name, driver = _nvml()
    yield Finding("GPU", name, "timing, and the gate on the real machine", "an NVIDIA GPU of capability 8.0 or newer")
    yield Finding("driver", driver, "timing", "NVIDIA's driver; in a container, the NVIDIA container toolkit")
    if name:
        yield _tuned(name)
    cuda = None
    if _installed("torch"):
        import torch

        if torch.version.cuda:
            cuda = f"CUDA {torch.version.cuda}, {'sees a GPU' if torch.cuda.is_available() else 'sees no GPU'}"
    yield Finding("torch with CUDA", cuda, "timing", "with a GPU: `make clean report` installs it")
    header = bootstrap.python_header()
    found = str(header) if header.exists() else None
    yield Finding(
        "Python.h", found, "Triton's launcher, built on first use of a GPU", f"apt install {bootstrap.NAME}-dev"
    )
    for tool, purpose in (("ncu", "inspect --ncu"), ("compute-sanitizer", "sanitize")):
        path = cuda_tools.locate(tool)
        yield Finding(tool, str(path) if path else None, f"twinkernels {purpose}", cuda_tools.HOW_TO_GET[tool])


def _tuned(gpu: str) -> Finding:
    """Which GPU's tiles the kernels have here: catalog.tiles.tables."""
    words = re.findall(r"\w+", gpu.lower())
    tables = {path.stem for operator in operators.every() for path in (operator.folder / "tiles").glob("*.toml")}
    own = [f"tuned on {word}" for word in words if word in tables]
    others = ["another Hopper GPU's for what it has none for"] if re.search(r"\bg?h\d", gpu.lower()) else []
    found = ", ".join(dict.fromkeys(own + others))
    return Finding("tiles", found or None, "the fastest kernels", "`twinkernels tune`")


def _nvml() -> tuple[str | None, str | None]:
    """(GPU name and memory, driver version)."""
    try:
        import pynvml

        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
        return f"{pynvml.nvmlDeviceGetName(handle)}, {memory:.0f} GiB", driver
    except Exception:  # no package, no library, no device: each means that nothing can be timed here
        return None, None


def _peers() -> Iterator[Finding]:
    torch = _installed("torch")
    inside = f"in torch {torch}" if torch else None
    purpose = "timing it beside kernels, on a GPU"
    in_torch = {name: module for operator in operators.every() for name, module in operator.in_torch.items()}
    for name, module in in_torch.items():
        yield Finding(name, inside if _importable(module) else None, purpose, SET_UP)
    libraries = {one.name: one for operator in operators.every() for one in operator.libraries.values()}
    for library in libraries.values():
        version, fault = _installed(library.distribution), library.fault()
        remedy = (version and fault) or library.install
        yield Finding(library.name, None if fault else version or "version unknown", purpose, remedy)


def main(as_json: bool) -> int:
    """Prints what is here, then what is missing; 0 unless the main job cannot run here."""
    findings = examine()
    able = healthy(findings)
    if as_json:
        print(json.dumps({"healthy": able, "findings": [asdict(finding) for finding in findings]}, indent=1))
        return 0 if able else 1
    print("here")
    for finding in findings:
        if finding.found:
            print(f"  {finding.name:34} {finding.found}")
    print("\nmissing")
    for finding in findings:
        if not finding.found:
            needed = ", needed" if finding.required else ""
            print(f"  {finding.name:34} for {finding.purpose}{needed}\n  {'':34} get it: {finding.remedy}")
    print(f"\n`make report` {'can' if able else 'cannot'} run here; it needs no GPU.")
    if able and any(finding.installed and not finding.found for finding in findings):
        print(
            "It uses .venv, which is set up: `.venv/bin/python -m harness doctor` says what is there."
            if bootstrap.is_set_up()
            else "First it installs what is missing into .venv, in this folder: "
            f"about {bootstrap.SIZES[bootstrap.has_gpu()]}."
        )
    return 0 if able else 1


if __name__ == "__main__":
    sys.exit(main("--json" in sys.argv[1:]))
