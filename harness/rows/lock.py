"""kernels.lock: which earlier sources of a kernel are the same program as this checkout's. Standard library only.

A row counts while its `source_sha256` is the checkout's. After an edit that changes neither a kernel's machine code nor
how the host launches it, its rows still count: the lock vouches for them. For each kernel, language and compiler it
lists

- the sources known to launch alike, this checkout's first: the hash of each, and of its host code (`host_sha256`);
- the machine code that the first of them compiles to: problem, tile and hash of the SASS, one line for each program
  that recorded rows measured. A language that compiles several programs for one tile (Triton specializes on lengths and
  strides) has a line for each.

A row is vouched for if its source and the checkout's have the same host code and its SASS is listed at its tile. The
file holds the first DIGITS of each hash. `twinkernels build --lock` writes it (harness/build/locking.py).

Where a tile of a CUDA kernel names another rung, which is compiled and launched in its place, the lock lists them as
technique:rung, with the host code of the rung: another rung that tiles may name changes nothing for these rows.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import sources
from harness.catalog.entries import Tile

PATH = sources.ROOT / "kernels.lock"
DIGITS = 16
HEAD = "# Machine code of recorded programs, by `twinkernels build --lock`; harness/rows/lock.py explains it.\n"
_SPACE = "~"
"""In place of a space in the name of a compiler."""


Key = tuple[str, str, str, str, str]
"""(`program`; backend, arch, front end, ptxas)."""


@cache
def program(technique: str, backend: str, tile: str) -> str:
    """technique:rung where the tile, a slug, names the rung that a CUDA kernel runs; else the technique, with its
    operator but for the first one."""
    operator = technique.partition("/")[0] if "/" in technique else operators.FIRST
    rung = operators.get(operator).named(Tile.parse(tile)) if backend == "cuda" and tile else None
    return f"{technique}:{rung}" if rung else technique


@dataclass
class Kernel:
    """One technique in one language by one compiler. `sources`: source -> host code, the one that compiled `cells`
    first. `cells`: (tile, SASS) -> a problem that compiles to it."""

    program: str
    backend: str
    arch: str
    front_end: str
    ptxas: str
    sources: dict[str, str] = field(default_factory=dict)
    cells: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.program, self.backend, self.arch, self.front_end, self.ptxas

    @property
    def technique(self) -> str:
        return self.program.partition(":")[0]

    @property
    def source(self) -> str:
        return next(iter(self.sources), "")


def read(path: Path = PATH) -> dict[Key, Kernel]:
    """Kernel.key -> kernel; empty without a lock. Raises sources.Unreadable with the line that is not the format's."""
    found: dict[Key, Kernel] = {}
    kernel: Kernel | None = None
    for number, line in enumerate(path.read_text().splitlines() if path.is_file() else (), 1):
        match line.split():
            case [] | ["#", *_]:
                pass
            case ["kernel", name, backend, arch, front_end, ptxas]:
                kernel = Kernel(name, backend, arch, front_end.replace(_SPACE, " "), ptxas)
                found[kernel.key] = kernel
            case ["source", source, host] if kernel:
                kernel.sources[source] = host
            case [problem, tile, sass] if kernel and len(sass) == DIGITS:
                kernel.cells[tile, sass] = problem
            case _:
                raise sources.Unreadable(
                    f"{path}:{number}: got {line[:60]!r}, expected a line that `build --lock` writes"
                )
    return found


def text(kernels: Iterable[Kernel]) -> str:
    lines = [HEAD]
    for kernel in sorted(kernels, key=lambda one: one.key):
        front_end = kernel.front_end.replace(" ", _SPACE)
        lines.append(f"\nkernel {kernel.program} {kernel.backend} {kernel.arch} {front_end} {kernel.ptxas}\n")
        lines += [f"source {source} {host}\n" for source, host in kernel.sources.items()]
        lines += sorted(f"{problem} {tile} {sass}\n" for (tile, sass), problem in kernel.cells.items())
    return "".join(lines)


@cache
def _kernels() -> dict[tuple[str, str], list[Kernel]]:
    found: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in read().values():
        found.setdefault((kernel.program, kernel.backend), []).append(kernel)
    return found


def vouches(row: Mapping[str, Any], twin: tuple[str, str], now: str | None, tile: str) -> bool:
    """Whether a row of another source measured the program of the source `now`. `twin` is (technique, backend), `tile`
    a slug."""
    sass, then = (row.get("code") or {}).get("sass_sha256") or row.get("sass_sha256"), row.get("source_sha256")
    if not (sass and then and now):
        return False
    for kernel in _kernels().get((program(*twin, tile), twin[1]), ()):
        host = kernel.sources.get(then[:DIGITS])
        alike = host is not None and kernel.source == now[:DIGITS] and host == kernel.sources[kernel.source]
        if alike and (tile, sass[:DIGITS]) in kernel.cells:
            return True
    return False


def host_sha256(backend: str, technique_path: str, root: Path | None = None) -> str:
    """Hash of the code that launches a kernel: of CUDA what `launch` and the other exported functions use, but for
    device code; of Triton and Gluon all but the compiled functions and their constants. The rungs that tiles of a
    CUDA kernel may name are left out: they have a `launch` of their own."""
    first, *rest = sources.files(backend, technique_path, root)
    texts = [sources.code(first)]
    launches = "EXPORT" in texts[0]
    texts += [sources.code(path) for path in rest if not (launches and path.suffix == ".cu")]
    found = _cuda_host("\n".join(texts)) if backend == "cuda" else "\n".join(sorted(map(_python_host, texts)))
    return hashlib.sha256(found.encode()).hexdigest()


def _python_host(text: str) -> str:
    tree = ast.parse(text)

    def is_compiled(node: ast.stmt) -> bool:
        if isinstance(node, ast.FunctionDef):
            return any("jit" in ast.unparse(each) for each in node.decorator_list)
        if isinstance(node, ast.Assign):
            return isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("constexpr")
        return isinstance(node, ast.Import | ast.ImportFrom)

    return "\n".join(ast.unparse(node) for node in tree.body if not is_compiled(node))


_NAME = re.compile(r"\b[A-Za-z_]\w*\b")


def _cuda_host(text: str) -> str:
    """The definitions that EXPORT functions use, in the order of their text."""
    chunks = [_without_device_code(chunk) for chunk in _definitions(text)]
    names = [_defined(chunk) for chunk in chunks]
    todo = [place for place, chunk in enumerate(chunks) if chunk.lstrip().startswith(("EXPORT", 'extern "C"'))]
    used: set[int] = set(todo)
    while todo:
        mentioned = set(_NAME.findall(chunks[todo.pop()]))
        more = [place for place, own in enumerate(names) if place not in used and own & mentioned]
        used.update(more)
        todo += more
    return "\n".join(sorted(" ".join(chunks[place].split()) for place in used))


def _definitions(text: str) -> list[str]:
    """What stands outside of all braces but those of namespaces, definition by definition; preprocessor lines too."""
    text = re.sub(r"\\\n", " ", text)
    found, begin, depth, body = [], 0, 0, False
    position = 0
    while position < len(text):
        letter, head = text[position], text[begin:position]
        if depth == 0 and letter == "#" and not head.strip():
            position = max(text.find("\n", position), position)
            found.append(text[begin:position])
            begin = position
        elif letter == "{" and depth == 0 and re.fullmatch(r"\s*(inline )?namespace\s*\w*\s*", head):
            begin = position + 1
        elif letter in "{(":
            if depth == 0:
                body = letter == "{" and bool(re.search(r"(\)|\bconst|\bnoexcept|})\s*$", head))
            depth += 1
        elif letter in "})":
            depth = max(depth - 1, 0)
            if letter == "}" and depth == 0 and (body or not head.strip()):
                found.append(text[begin : position + 1])
                begin = position + 1
        elif letter == ";" and depth == 0:
            found.append(text[begin : position + 1])
            begin = position + 1
        position += 1
    return [chunk for chunk in found if chunk.strip(" \n;}")]


def _without_device_code(chunk: str) -> str:
    """A definition without bodies of device functions: of kernels and DEVICE functions the head alone is left."""
    found, position = "", 0
    for match in re.finditer(r"\b(DEVICE|KERNEL|__device__|__global__)\b", chunk):
        if match.start() < position:
            continue
        begin = chunk.find("{", match.end())
        semicolon = chunk.find(";", match.end())
        if begin < 0 or 0 <= semicolon < begin:
            continue
        end, depth = begin, 0
        while end < len(chunk):
            depth += {"{": 1, "}": -1}.get(chunk[end], 0)
            end += 1
            if not depth:
                following = chunk[end:].lstrip()
                if not following.startswith((",", "{")):  # braces of an initializer come before the body
                    break
        kernel = match[1] in ("KERNEL", "__global__")
        found += chunk[position : begin if kernel else match.start()]
        position = end
    return found + chunk[position:]


def _defined(chunk: str) -> set[str]:
    """The names that a definition may be used by."""
    if match := re.match(r"\s*#\s*define\s+(\w+)", chunk):
        return {match[1]}
    head = chunk.partition("{")[0]
    head = re.sub(r"^\s*template\s*<[^>]*>", "", head)
    if match := re.match(r"\s*(?:struct|class|union|enum(?:\s+class)?)\s+(\w+)", head):
        return {match[1]}
    if match := re.match(r"\s*using\s+(\w+)", head):
        return {match[1]}
    names = set(re.findall(r"(\w+)\s*(?:\(|=(?!=)|\[)", head)) | set(re.findall(r"(\w+)\s*;", head))
    return names - {"sizeof", "static_assert", "if", "decltype", "alignas"}
