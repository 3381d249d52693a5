"""Several kernels compiled for the CPU as one library: what all of them include of ptx/ and the runtime takes most of a
build, and another kernel, or the same with an edit, a tenth of it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from cuda_kernels import cpu_build, patched
from cuda_kernels.cpu_library import Library
from harness import operators
from harness.catalog import techniques
from harness.catalog.entries import Tile

EXPORTED = ("launch", "shared_memory_bytes", "unzeroed_bytes", "workspace_bytes")
EXPORT = 'extern "C" __attribute__((visibility("default")))'
LAUNCH = f"{EXPORT} int launch() {{ return 0; }}"
"""Without one a file is no kernel."""
BOUNDS = "const std::map<int, int> launch_bounds = std::exchange(cpu::bounds(), {});"
"""The launch bounds that a copy registers as the library is loaded: they hold for its own launches alone."""
Read = Callable[[str], str | None]
"""The text of a file of cuda_kernels; None where it is not an operator's."""
Libraries = dict[tuple[Any, ...], Library]
"""By technique, problem and, where it is not the reference tile, tile."""


def of(root: Path) -> Read:
    def read(file: str) -> str | None:
        path = patched.kernel_file(file.removesuffix(".cu"), root) if file.endswith(".cu") else root / file
        return path.read_text() if path.is_file() and not file.startswith("ptx/") else None

    return read


as_it_is = of(cpu_build.HERE)


def edited(file: str, edits: Mapping[str, str], times: int = 1) -> Read:
    """Other files as they are; in `file` each key of `edits`, which occurs so many times, is replaced by its value."""

    def read(asked: str) -> str | None:
        text = as_it_is(asked)
        if text is None or asked != file:
            return text
        for right, wrong in edits.items():
            assert text.count(right) == times, f"{file} has changed: edit this test for {right!r}"
            text = text.replace(right, wrong)
        return text

    return read


class Kernel(NamedTuple):
    """A technique for a problem; at its reference tile where none is given. `packed`: for packed tensors alone."""

    technique: str
    problem: Any
    tile: Tile | None = None
    read: Read = as_it_is
    packed: bool = False


def whole(file: str, read: Read, name: str) -> str:
    """A file with what it includes of its operators in place, for the namespace of this name; diagnoses tell its own
    lines."""
    # what is global is in the namespace, but for a wrapper that the kernel's own name hides
    text = re.sub(rf"(?<![\w>:])::(?=\w)(?!{Path(file).stem}\b)", f"{name}::", read(file) or "")
    lines = [f'#line 1 "{file}"']
    for number, line in enumerate(text.splitlines(), 1):
        included = re.match(r"#include <(.*)>", line)
        if included and read(included[1]) is not None:
            guard = f"{name}_{re.sub(r'[^a-z0-9]', '_', included[1])}"
            inner = whole(included[1], read, name)
            lines += [f"#ifndef {guard}\n#define {guard}\n{inner}\n#endif", f'#line {number + 1} "{file}"']
        else:
            lines.append("" if line == "#pragma once" else line)
    return "\n".join(lines)


def build(kernels: Sequence[Kernel]) -> list[Library]:
    """The library of each: all of one build."""
    files = []
    for technique, problem, tile, read, packed in kernels:
        known = techniques.at(technique, problem)
        tile = tile or techniques.reference_tile(known, problem.tile_key)
        has_constant_strides = packed and known.constant_strides
        constants = operators.of(problem).defines(problem, tile, constant_strides=has_constant_strides)
        files.append((whole(f"{known.path}.cu", read, f"copy_{len(files)}"), constants))
    return of_texts(files)


def of_texts(kernels: Sequence[tuple[str, Mapping[str, object]]], *include: Path) -> list[Library]:
    """The library of each text with its constants: all of one build. A global name of the text, if it has any, is
    written as one of the namespace copy_<number>."""
    lines = []
    for number, (text, constants) in enumerate(kernels):
        defined = {**constants, **{name: f"{name}_{number}" for name in EXPORTED}}
        lines += [f"#define {name} {value}" for name, value in defined.items()]
        opening = f"namespace copy_{number} {{\nusing ::register_fence;  // of which operators have more"
        bounded = f"{BOUNDS}\n{EXPORT} void take_bounds_{number}() {{ cpu::bounds() = launch_bounds; }}"
        lines += [opening, text, bounded, "}", *(f"#undef {name}" for name in defined)]
    included = {line for text, _ in kernels for line in text.splitlines() if line.startswith("#include")}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "together.cu"
        file.write_text("\n".join(["#include <map>", "#include <utility>", *sorted(included), LAUNCH, *lines]))
        path = cpu_build.build(file, {}, include=include)
    return [_of_copy(path, number) for number in range(len(kernels))]


def of_cells(cells: Iterable[tuple[Any, ...]]) -> Libraries:
    """Kernels as they are, by technique, problem and tile."""
    distinct = list(dict.fromkeys(cells))
    return dict(zip(distinct, build([Kernel(*cell) for cell in distinct]), strict=True))


def parameters(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The parameters of every selected test of the file that uses this fixture."""
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    return [item.callspec.params for item in items if request.fixturename in item.fixturenames]  # type: ignore[attr-defined]


def asked(request: pytest.FixtureRequest) -> Libraries:
    """A fixture of a file: the kernels that its selected tests have as parameters `name`, `problem` and, where they
    have one, `tile`; all of one build."""
    names = "name", "problem", "tile"
    return of_cells(tuple(one[name] for name in names if name in one) for one in parameters(request))


def _of_copy(path: Path, number: int) -> Library:
    library = Library(path)
    for name in EXPORTED:
        if hasattr(library.handle, f"{name}_{number}"):
            setattr(library.handle, name, library.handle[f"{name}_{number}"])
    take_bounds, own = (library.handle[f"{name}_{number}"] for name in ("take_bounds", "launch"))

    def launch(*given: Any) -> int:
        take_bounds()
        status: int = own(*given)
        return status

    library.launch = launch
    return library
