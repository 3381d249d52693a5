"""Who may import whom: the design's table, over Python imports and #include lines, plus that every file obeys a row."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest

from harness import operators
from harness.catalog import sources
from tests.conftest import CHECKOUT

PACKAGES = ("harness", "experiments", "reports", "triton_kernels", "cuda_kernels")

KERNELS = ("cuda_kernels", "triton_kernels")
PLOTS = ("pandas", "seaborn", "matplotlib", "jinja2", "markupsafe", "markdown_it", "pygments")


@dataclass(frozen=True)
class Row:
    """`places` are files and folders; `may` and `must_not` module prefixes; the standard library is always allowed.
    `may` None allows the rest."""

    places: tuple[str, ...]
    may: tuple[str, ...] | None
    must_not: tuple[str, ...] = ()

    def has(self, file: str) -> bool:
        return any(file == place or file.startswith(f"{place}/") for place in self.places)


OPERATORS = ("harness.operators.attention", "harness.operators.attention_backward", "harness.operators.gemm")
REGISTRY = ("harness.operators.protocol", "harness.operators.errors")

# Files of which more is asked than of their room. The first row that has a file holds.
FILES = (
    Row(
        (
            *("cuda_kernels/toolchain.py", "cuda_kernels/includes.py", "harness/machine/cuda_tools.py"),
            *("harness/machine/processes.py", "harness/build/instruction_order.py", "harness/setup/lint.py"),
        ),
        (),
    ),
    Row(("harness/machine/clocks.py",), ("torch", "pynvml")),
    Row(("harness/build/machine_code.py",), ("harness.catalog.sources", "harness.build.instruction_order", "triton")),
    Row(("harness/measure/timing.py",), ("torch", "harness.machine.clocks", "harness.catalog.entries")),
    Row(
        ("harness/measure/ray_workers.py",),
        (
            *("harness.catalog.sources", "harness.machine.processes", "harness.rows.reading"),
            *("harness.measure.fleet", "ray"),
        ),
    ),
    Row(("harness/expressibility/child.py",), ("triton", "triton_kernels", "harness.build")),
    Row(("harness/operators/attention/rivals/cute",), ("cutlass",)),
    Row(("harness/operators/attention/rivals/cutile",), ("cuda.tile", "nvidia", "assemble")),
    Row(("harness/operators/attention/claims",), ("harness.operators.attention", "harness.expressibility.claims")),
    Row(("harness/operators/gemm/claims",), ("harness.operators.gemm", "harness.expressibility")),
    Row(
        ("harness/operators/attention_backward/claims",),
        ("harness.operators.attention_backward", "harness.expressibility.claims"),
    ),
    Row(
        ("triton_kernels/gemm/hopper/flagship.py", "triton_kernels/gemm/gluon/hopper/flagship.py"),
        ("torch", "triton", "triton_kernels.gemm", "triton_kernels.attention.gluon_warpgroups"),
    ),
    Row(
        (
            *("harness/operators/attention/api.py", "harness/operators/attention_backward/api.py"),
            "harness/operators/attention/structured_heads.py",
        ),
        (
            *("harness.operators", "harness.catalog", "harness.build", "harness.rows.results"),
            *("harness.machine.environment", "torch"),
        ),
    ),
    Row(("harness/__main__.py",), ("harness.cli", "harness.setup.doctor")),
    Row(("harness/setup/script.py",), ("harness.setup.bootstrap", "harness.operators", "harness.catalog")),
    Row(("harness/setup/bootstrap.py",), ("cuda_kernels.toolchain",)),
    Row(("triton_kernels/gluon_names.py",), ("triton",)),
    Row(("triton_kernels/probes",), ("triton", "utlx_plugin")),
    Row(("triton_kernels/attention/tlx",), ("triton", "utlx_plugin", "triton_kernels.attention.specialization")),
)

BELOW_BUILD = ("harness.operators", "harness.catalog", "harness.machine", "harness.rows")
BELOW_REPORTS = ("harness.catalog", "harness.rows", "harness.expressibility", "harness.operators")

# Room by room, the lowest first: a room imports itself and rooms above it in this table.
ROOMS = {
    "cuda_kernels": Row(("cuda_kernels",), ("cuda_kernels", "torch")),
    "triton_kernels": Row(
        ("triton_kernels",),
        (
            *("torch", "triton", "triton_kernels.attention.specialization", "triton_kernels.gluon_names"),
            *("triton_kernels.attention.gluon_warpgroups", "triton_kernels.attention.gluon_pipeline"),
            "triton_kernels.attention.packed_rows",
            *("triton_kernels.gemm.specialization", "triton_kernels.gemm.epilogue", "triton_kernels.gemm.gluon_tiles"),
            *("triton_kernels.gemm.groups", "triton_kernels.gemm.gluon_groups"),
            *("triton_kernels.gemm.gluon_two_tensors", "triton_kernels.gemm.level_waves"),
            *("triton_kernels.gemm.majors", "triton_kernels.gemm.gluon_majors"),
            *("triton_kernels.attention_backward.specialization", "triton_kernels.attention_backward.row_sums"),
            "triton_kernels.attention_backward.gluon_warpgroups",
        ),
    ),
    "harness.operators": Row(
        tuple(f"harness/operators/{name}.py" for name in ("__init__", "protocol", "errors")), REGISTRY
    ),
    "harness.catalog": Row(
        ("harness/catalog",),
        (*REGISTRY, "harness.operators", "harness.catalog", "cuda_kernels.includes", "cuda_kernels.patched"),
        OPERATORS,
    ),
    "harness.machine": Row(
        ("harness/machine",),
        (
            *("harness.machine", "harness.catalog.sources", "harness.catalog.architectures", "harness.catalog.text"),
            *("cuda_kernels.toolchain", "cuda_kernels.cpu_build", "torch", "pynvml", "rich"),
        ),
    ),
    "harness.rows": Row(
        ("harness/rows",),
        (
            *("harness.rows", "harness.operators", "harness.catalog"),
            *("numpy", "pandas", "scipy", "pydantic", "pydantic_core", "rich"),
        ),
    ),
    "an operator": Row(("harness/operators",), ("harness.operators", "harness.catalog", "torch")),
    "harness.build": Row(
        ("harness/build",),
        None,
        (
            *("harness.measure", "harness.inspection", "harness.expressibility", "harness.setup", "harness.cli"),
            *(*OPERATORS, *PLOTS, "ray"),
        ),
    ),
    "harness.measure": Row(
        ("harness/measure",), ("harness.measure", *BELOW_BUILD, "harness.build", "torch", "numpy"), OPERATORS
    ),
    "harness.inspection": Row(
        ("harness/inspection",),
        ("harness.inspection", *BELOW_BUILD, "harness.build", "harness.measure", "torch", "numpy"),
        OPERATORS,
    ),
    "harness.expressibility": Row(
        ("harness/expressibility",), ("harness.expressibility", *BELOW_BUILD, "harness.build"), OPERATORS
    ),
    "harness.setup": Row(
        ("harness/setup",),
        (
            *("harness.setup", "harness.machine.cuda_tools", "harness.operators", "cuda_kernels.toolchain"),
            *("torch", "pynvml"),
        ),
        OPERATORS,
    ),
    "experiments": Row(("experiments",), ("_script", "harness.catalog", "harness.operators", "harness.setup.script")),
    "reports.data": Row(("reports/data",), ("reports.data", *BELOW_REPORTS, "pandas", "numpy")),
    "reports.facts": Row(("reports/facts",), ("reports.facts", "reports.data", *BELOW_REPORTS, "pandas", "numpy")),
    "reports.draw": Row(("reports/draw",), ("reports.draw", "reports.facts", "reports.data", *BELOW_REPORTS, *PLOTS)),
    "reports.pages": Row(
        ("reports/pages",), ("reports.pages", "reports.draw", "reports.facts", "reports.data", *BELOW_REPORTS, *PLOTS)
    ),
    "reports": Row(("reports",), ("reports", *BELOW_REPORTS, *PLOTS)),
    "harness.cli": Row(("harness/cli",), None, (*KERNELS, *PLOTS[1:], "ray")),
    "harness": Row(
        ("harness",),
        (
            *("harness.api", "harness.cli", "harness.catalog", "harness.rows", "harness.measure", "harness.build"),
            *("harness.operators", "torch", "pandas"),
        ),
        OPERATORS,
    ),
}


@cache
def python_files() -> list[str]:
    """Of the checkout. A site has copies of probes for its readers."""
    files = (path.relative_to(CHECKOUT) for package in PACKAGES for path in (CHECKOUT / package).rglob("*.py"))
    return sorted(str(path) for path in files if not path.is_relative_to("reports/site"))


def cuda_files() -> list[str]:
    return sorted(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "cuda_kernels").rglob("*.cu*"))


@cache
def text(file: str) -> str:
    return (CHECKOUT / file).read_text()


class _Runtime(ast.NodeTransformer):
    """Leaves out what is imported for type checkers alone."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


@cache
def imports(source: str) -> frozenset[str]:
    """Every module that the source imports, anywhere in it; `from harness import rows` counts as harness.rows."""
    found = set()
    for node in ast.walk(_Runtime().visit(ast.parse(source))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; write the whole name"
            inside = (CHECKOUT / str(node.module).replace(".", "/")).is_dir()
            found |= {f"{node.module}.{alias.name}" if inside else str(node.module) for alias in node.names}
    return frozenset(name for name in found if name.partition(".")[0] not in sys.stdlib_module_names)


def below(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def is_one_line_twin(source: str) -> bool:
    """A docstring and one import: the same program again."""
    body = ast.parse(source).body
    return len(body) == 2 and isinstance(body[0], ast.Expr) and isinstance(body[1], ast.ImportFrom)


def violations(file: str, source: str) -> list[str]:
    if not file.endswith(".py"):
        return include_violations(file, source)
    row = next((row for row in (*FILES, *ROOMS.values()) if row.has(file)), None)
    if row is None:
        return [f"{file} has no row in the import table; add one"]
    found = imports(source)
    if file.startswith("triton_kernels/") and is_one_line_twin(source):
        operator = ".".join(file.split("/")[:2])
        found = {name for name in found if not below(name, (operator,))}
    forbidden = {name for name in found if below(name, row.must_not)}
    if row.may is not None:
        forbidden |= {name for name in found if not below(name, row.may)}
    return [f"{file} may not import {name}" for name in sorted(forbidden)]


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"][^>"]+[>"])', re.MULTILINE)
OF_A_KERNEL = ("ptx/", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cstdint")
"""What any kernel may include, beside its operator's headers."""
CHOOSES_A_KERNEL = "cuda_kernels/gemm/schedules.cuh"
"""Includes one of several kernels as a whole, which the flagship's tile names."""


def include_violations(file: str, source: str) -> list[str]:
    includes = INCLUDE.findall(source)
    code = [line for line in source.splitlines() if line.strip() and not line.lstrip().startswith("//")]
    is_twin = file.endswith(".cu") and len(code) == 1 and len(includes) == 1
    operator = f"{file.split('/')[1]}/"
    problems = []
    for include in includes:
        name = include[1:-1]
        if include[0] == '"':
            problems.append(f'{file}: #include "{name}": angle brackets, so that the include path decides GPU or CPU')
        elif name.endswith(".cu") and not is_twin and file != CHOOSES_A_KERNEL:
            problems.append(f"{file}: includes the kernel {name}; only a file of nothing else may")
        elif name.partition("/")[0] in ("torch", "ATen", "c10", "cutlass", "cute"):
            problems.append(f"{file}: may not include <{name}>")
        elif file.endswith(".cu") and not name.endswith(".cu") and not name.startswith((operator, *OF_A_KERNEL)):
            problems.append(f"{file}: a kernel includes its operator's headers, <ptx/...> and the 16-bit types")
    return problems


def test_a_file_imports_and_includes_only_what_the_table_allows() -> None:
    assert [one for file in (*python_files(), *cuda_files()) for one in violations(file, text(file))] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("harness/catalog/techniques.py", "import torch"),
        ("harness/measure/timing.py", "from harness.operators.attention.problem import Problem"),
        ("harness/measure/timing.py", "def f():\n    from harness.operators.attention import inputs"),
        ("harness/operators/attention/numerics.py", "from harness.measure import timing"),
        ("harness/measure/runner.py", "import triton_kernels.attention.ampere.scalar"),
        ("harness/measure/runner.py", "from cuda_kernels import build"),
        ("harness/setup/doctor.py", "from cuda_kernels import build"),
        ("harness/build/variant.py", "import pandas"),
        ("harness/measure/fleet.py", "import ray"),
        ("harness/cli/spreading.py", "def f():\n    import ray"),
        ("triton_kernels/attention/ampere/scalar.py", "from harness.operators.attention.problem import Problem"),
        ("triton_kernels/attention/ampere/x.py", "from triton_kernels.attention.ampere import scalar\nf = scalar.f"),
        ("cuda_kernels/build.py", "import triton"),
        ("reports/build.py", "import torch"),
        ("reports/draw/figures.py", "from harness.measure import timing"),
        ("reports/facts/gains.py", "from reports.draw import figures"),
        ("reports/data/dataset.py", "from reports.facts import scores"),
        ("reports/draw/banks.py", "from reports.pages import common"),
        ("experiments/attention/ladder.py", "from harness.measure import runner"),
        ("cuda_kernels/attention/ampere/x.cu", "#include <torch/types.h>\nint a;"),
        ("cuda_kernels/attention/ampere/x.cu", "#include <cutlass/cutlass.h>\nint a;"),
        ("cuda_kernels/attention/ampere/x.cu", "#include <attention/ampere/scalar.cu>\nint a;"),
        ("cuda_kernels/attention/ampere/x.cu", '#include "attention.cuh"\nint a;'),
        ("cuda_kernels/attention/ampere/x.cu", "#include <cuda_runtime.h>\nint a;"),
        ("cuda_kernels/attention/hopper/x.cu", "#include <attention/hopper/persistent.cu>\nint a;"),
        ("cuda_kernels/ptx/mma.cuh", "#include <cute/tensor.hpp>"),
    ],
)
def test_the_table_rejects(file: str, source: str) -> None:
    assert violations(file, source)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "triton_kernels/attention/ampere/x.py",
            '"""The same."""\nfrom triton_kernels.attention.ampere.scalar import twin',
        ),
        ("cuda_kernels/attention/ampere/x.cu", "// Only the tile.\n#include <attention/ampere/scalar.cu>\n"),
    ],
)
def test_a_file_that_is_the_same_program_again_may_name_it(file: str, source: str) -> None:
    assert violations(file, source) == []


def room_of(file: str) -> str:
    return next(room for room, row in ROOMS.items() if row.has(file))


@cache
def imported_files(file: str) -> set[str]:
    """Files of this checkout that the file imports: a module's own, or the __init__.py of the package that has it."""
    places = [(CHECKOUT / name.replace(".", "/"), name) for name in imports(text(file))]
    found = set()
    for place, name in places:
        if name.partition(".")[0] in PACKAGES:
            candidates = (place.with_suffix(".py"), place / "__init__.py", place.parent / "__init__.py")
            found |= {next(str(path.relative_to(CHECKOUT)) for path in candidates if path.is_file())}
    return found - {file}


def test_no_file_imports_itself_by_way_of_others() -> None:
    graph = {file: imported_files(file) for file in python_files()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


def test_a_room_imports_rooms_above_it_in_the_table_only() -> None:
    order = list(ROOMS)
    operators = order.index("an operator")  # its plain data is the catalog's, and of claims

    def is_upward(file: str, other: str) -> bool:
        here, there = order.index(room_of(file)), order.index(room_of(other))
        return there > here and there != operators and here != operators

    upward = {
        f"{file} -> {other}" for file in python_files() for other in imported_files(file) if is_upward(file, other)
    }
    assert upward == set()


def test_only_the_command_line_imports_the_reports() -> None:
    importers = {file for file in python_files() if any(name.startswith("reports/") for name in imported_files(file))}
    assert {room_of(file) for file in importers if not file.startswith("reports/")} == {"harness.cli"}


def test_every_module_of_this_checkout_that_is_imported_exists() -> None:
    named = re.compile(rf"^ *from ((?:{'|'.join(PACKAGES)})[\w.]*) import ", re.MULTILINE)
    asked = {(file, name) for file in python_files() for name in named.findall(text(file))}
    places = {(file, CHECKOUT / name.replace(".", "/")) for file, name in asked}
    assert [one for one in places if not one[1].is_dir() and not one[1].with_suffix(".py").is_file()] == []


WORDS = re.compile(r"head_dim|seq_q|seq_kv|heads_kv|causal|\blse\b|attention|\bAttention\b")
"""What only an operator's own files say."""
OF_OPERATORS = ("harness/operators", "reports/notes", "reports/recorded", "reports/runs", "reports/site")


def blind_files() -> list[str]:
    """Python and HTML of the rooms that know no operator."""
    files = [path for room in ("harness", "reports") for path in (CHECKOUT / room).rglob("*")]
    names = (str(path.relative_to(CHECKOUT)) for path in files if path.suffix in (".py", ".html"))
    return sorted(
        name
        for name in names
        if not name.startswith(OF_OPERATORS) and not re.match(r"reports/(pages|templates)/attention", name)
    )


def test_rooms_that_know_no_operator_use_none_of_its_words() -> None:
    assert [file for file in blind_files() if WORDS.search(text(file))] == []


def test_describing_an_operator_needs_no_torch() -> None:
    """Its problem, ladders, tiles, limits and claims; nor does importing the harness."""
    program = (
        "import sys; from harness import operators; from harness.expressibility import matrix; "
        "from harness.catalog import tiles; tiles.all_tables(); sys.exit('torch' in sys.modules)"
    )
    assert operators.every()
    assert subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT).returncode == 0


@pytest.mark.parametrize(
    ("kernel", "header", "depends"),
    [
        ("attention/ampere/scalar", "ptx/tensor_map.cuh", False),
        ("attention/ampere/scalar", "attention/tile_schedulers.cuh", False),
        ("attention/ampere/longest_first", "attention/tile_schedulers.cuh", True),
        ("attention/ampere/longest_first", "attention/tma_params.cuh", False),
        ("attention/tma/tma_loads", "ptx/tensor_map.cuh", True),
        ("attention/tma/tma_loads", "attention/tile_schedulers.cuh", False),
    ],
)
def test_a_kernel_depends_on_what_it_uses(kernel: str, header: str, depends: bool) -> None:
    """An edit of a header makes the rows of those kernels stale that include it, and of no others."""
    found = sources.files("cuda", kernel)
    assert (CHECKOUT / "cuda_kernels" / header in found) is depends
