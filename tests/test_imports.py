"""Who may import whom: the design's table, over Python imports and #include lines, plus that every file obeys a row."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
ROOMS = ("harness", "experiments", "reports", "triton_kernels", "cuda_kernels")

DATA = (
    "harness.problem",
    "harness.techniques",
    "harness.results",
    "harness.sources",
    "harness.articles",
    "harness.planted",
)
KERNELS = ("cuda_kernels", "triton_kernels")
PLOTS = ("pandas", "seaborn", "matplotlib", "jinja2", "markupsafe", "markdown_it", "pygments")
TERMINAL = ("rich", "typer")


@dataclass(frozen=True)
class Row:
    """`may` and `must_not` are module prefixes; the standard library is always allowed. `may` None allows the rest."""

    files: tuple[str, ...]
    may: tuple[str, ...] | None
    must_not: tuple[str, ...] = ()


# The first row that matches a file holds.
TABLE = (
    Row(("harness/lint.py", "harness/cuda_tools.py", "cuda_kernels/toolchain.py"), ()),
    Row(("harness/bootstrap.py",), ("cuda_kernels.toolchain",)),
    Row(
        ("harness/doctor.py",),
        (
            "harness.bootstrap",
            "harness.cuda_tools",
            "harness.variants.libraries",
            "cuda_kernels.toolchain",
            "torch",
            "pynvml",
        ),
    ),
    Row(("harness/problem.py", "harness/techniques.py", "harness/results.py", "harness/sources.py"), DATA),
    Row(("harness/articles.py", "harness/planted.py"), DATA),
    Row(("experiments/*.py",), ("harness.problem", "harness.techniques", "harness.articles", "harness.cli")),
    Row(
        ("harness/inputs.py", "harness/reference.py", "harness/numerics.py", "harness/validate.py"),
        ("torch", "harness.inputs", "harness.reference", "harness.problem", "harness.techniques"),
    ),
    Row(
        ("harness/timing.py", "harness/clocks.py", "harness/environment.py"),
        ("torch", "pynvml", "harness.clocks", "harness.sources", "cuda_kernels.toolchain"),
    ),
    Row(("harness/scorecard.py", "harness/compare.py"), (*DATA, "harness.scorecard", *TERMINAL)),
    Row(("harness/variants/*.py",), None, PLOTS),
    Row(("harness/*.py",), None, (*KERNELS, *PLOTS)),
    Row(("reports/*.py",), (*DATA, "harness.scorecard", "harness.tiles", "reports", *PLOTS)),
    Row(("cuda_kernels/*.py",), ("torch", "cuda_kernels")),
    Row(
        ("triton_kernels/*.py",),
        ("torch", "triton", "triton_kernels.specialization", "triton_kernels.gluon_specialization"),
    ),
)


def python_files() -> list[str]:
    return sorted(str(path.relative_to(CHECKOUT)) for room in ROOMS for path in (CHECKOUT / room).rglob("*.py"))


def imports(source: str) -> set[str]:
    """Every module that the source imports, anywhere in it; `from harness import clocks` counts as harness.clocks."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; write the whole name"
            inside = node.module in ROOMS
            found |= {f"{node.module}.{alias.name}" if inside else str(node.module) for alias in node.names}
    return {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names}


def below(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def is_one_line_twin(source: str) -> bool:
    """A docstring and one import: the same program again."""
    body = ast.parse(source).body
    return len(body) == 2 and isinstance(body[0], ast.Expr) and isinstance(body[1], ast.ImportFrom)


def violations(file: str, source: str) -> list[str]:
    row = next((row for row in TABLE if any(fnmatch(file, pattern) for pattern in row.files)), None)
    if row is None:
        return [f"{file} has no row in the import table; add one"]
    found = imports(source)
    if file.startswith("triton_kernels/") and is_one_line_twin(source):
        found = {name for name in found if not below(name, (file.rpartition("/")[0].replace("/", "."),))}
    forbidden = {name for name in found if below(name, row.must_not)}
    if row.may is not None:
        forbidden |= {name for name in found if not below(name, row.may)}
    return [f"{file} may not import {name}" for name in sorted(forbidden)]


@pytest.mark.parametrize("file", python_files())
def test_a_python_file_imports_only_what_the_table_allows(file: str) -> None:
    assert violations(file, (CHECKOUT / file).read_text()) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("harness/techniques.py", "import torch"),
        ("harness/timing.py", "from harness.problem import Problem"),
        ("harness/timing.py", "def f():\n    from harness import inputs"),
        ("harness/numerics.py", "from harness import timing"),
        ("harness/runner.py", "import triton_kernels.ampere.scalar"),
        ("harness/runner.py", "from cuda_kernels import build"),
        ("harness/doctor.py", "from cuda_kernels import build"),
        ("harness/variants/peers.py", "import pandas"),
        ("triton_kernels/ampere/scalar.py", "from harness.problem import Problem"),
        ("triton_kernels/ampere/x.py", "from triton_kernels.ampere import scalar\nlaunch = scalar.launch"),
        ("cuda_kernels/build.py", "import triton"),
        ("reports/build.py", "import torch"),
        ("reports/figures.py", "from harness import timing"),
        ("experiments/ladder.py", "from harness import runner, numerics"),
    ],
)
def test_the_table_rejects(file: str, source: str) -> None:
    assert violations(file, source)


def test_a_one_line_twin_may_import_its_sibling() -> None:
    twin = '"""No lever."""\nfrom triton_kernels.ampere.scalar import launch, specialize, workspace_bytes\n'
    assert violations("triton_kernels/ampere/x.py", twin) == []


STANDARD_HEADERS = {"cstdint", "cstddef", "type_traits", "limits", "utility"}
CUDA_TYPES = {"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"][^>"]+[>"])', re.MULTILINE)


def include_violations(file: str, source: str) -> list[str]:
    includes = INCLUDE.findall(source)
    code = [line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("//")]
    is_twin = file.endswith(".cu") and len(code) == 1 and len(includes) == 1
    problems = []
    for include in includes:
        name = include[1:-1]
        if include[0] == '"':
            problems.append(f'{file}: #include "{name}": angle brackets, so that the include path decides GPU or CPU')
        elif name.endswith(".cu"):
            if not is_twin:
                problems.append(f"{file}: includes the kernel {name}; only a file of nothing else may")
        elif file.endswith(".cu") and not is_twin:
            if name != "attention.cuh" and not name.startswith("ptx/") and name not in CUDA_TYPES | {"cstdint"}:
                problems.append(
                    f"{file}: a kernel includes <attention.cuh>, <ptx/...> and the 16-bit types, not <{name}>"
                )
        elif name.partition("/")[0] in ("torch", "ATen", "c10", "cutlass", "cute"):
            problems.append(f"{file}: may not include <{name}>")
    return problems


def cuda_files() -> list[str]:
    return sorted(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "cuda_kernels").rglob("*.cu*"))


@pytest.mark.parametrize("file", cuda_files())
def test_a_cuda_file_includes_only_what_the_table_allows(file: str) -> None:
    assert include_violations(file, (CHECKOUT / file).read_text()) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("cuda_kernels/ampere/x.cu", "#include <torch/types.h>\nint a;"),
        ("cuda_kernels/ampere/x.cu", "#include <cutlass/cutlass.h>\nint a;"),
        ("cuda_kernels/ampere/x.cu", "#include <ampere/scalar.cu>\nint a;"),
        ("cuda_kernels/ampere/x.cu", '#include "attention.cuh"\nint a;'),
        ("cuda_kernels/ampere/x.cu", "#include <cuda_runtime.h>\nint a;"),
        ("cuda_kernels/ptx/mma.cuh", "#include <cute/tensor.hpp>"),
    ],
)
def test_the_include_table_rejects(file: str, source: str) -> None:
    assert include_violations(file, source)


def test_a_cuda_file_that_is_the_same_program_again_may_include_it() -> None:
    assert include_violations("cuda_kernels/ampere/x.cu", "// Only the tile.\n#include <ampere/scalar.cu>\n") == []
