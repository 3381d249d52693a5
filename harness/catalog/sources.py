"""What a kernel is made of: its source files, their hash, their size, and whether it is another's program again.

Standard library only, so that a report can be made without torch. A kernel is named by `technique_path`, which is
`operator/ladder/name`: cuda_kernels/operator/ladder/name.cu, triton_kernels/operator/ladder/name.py and, where there is
one, triton_kernels/operator/gluon/ladder/name.py or triton_kernels/operator/tlx/ladder/name.py.
"""

import ast
import fcntl
import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from harness import operators

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TWINKERNELS_CACHE") or ROOT / "build").absolute()
"""What compilers and disassemblers made, by the hash of what they made it from: checkouts can share it."""


class Unreadable(ValueError):
    """A file does not hold what it should. The message names the file and the line."""


def put(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all, even while other processes write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lets one process at a time read files below the folder and replace them. Makes the folder where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def kernel_file(backend: str, technique_path: str, root: Path | None = None) -> Path:
    """The twin's file, whether or not it exists; of an ablation that is a patch, the patched file in the build folder.
    Raises ValueError for a backend that has no kernel file here, and for a patch that does not fit."""
    operator, _, stem = technique_path.partition("/")
    root = root or operators.root(operator)
    language = backend.partition("@")[0]
    if language == "cuda":
        from cuda_kernels import patched  # not before the command line has seen whose package this is

        return patched.kernel_file(technique_path, root / "cuda_kernels")
    if language in ("triton", "triton_native"):
        return root / "triton_kernels" / f"{technique_path}.py"
    if language in ("gluon", "tlx", "hatch"):
        return root / "triton_kernels" / operator / language / f"{stem}.py"
    raise ValueError(
        f"backend: got {backend!r}, expected cuda, triton, triton_native, gluon, tlx or hatch (peers have no file here)"
    )


def shown(backend: str, technique_path: str) -> str:
    """Where to read a kernel: its file or its patch, from the root of the checkout."""
    path = ROOT / "cuda_kernels" / f"{technique_path}.patch"
    if backend != "cuda" or not path.is_file():
        path = kernel_file(backend, technique_path)
    return path.relative_to(ROOT).as_posix()


def series(backends: Iterable[str], technique_path: str) -> list[str]:
    """The backends, of those given, in which the technique is measured. CUDA and Triton always are, so that a missing
    file is an error. Gluon, TLX and a hatch are where they have a kernel; triton_native is not on the ladder of wgmma,
    where Triton is native already; an ablation is CUDA alone."""
    if "/ablations/" in technique_path:
        return [name for name in backends if name == "cuda"]
    without = {"triton_native"} if "/hopper/" in technique_path else set()
    without |= {name for name in ("gluon", "tlx", "hatch") if not kernel_file(name, technique_path).is_file()}
    return [name for name in backends if name.partition("@")[0] not in without]


def has_series(backend: str, technique_path: str) -> bool:
    return bool(series([backend], technique_path))


def files(backend: str, technique_path: str, root: Path | None = None) -> list[Path]:
    """The kernel's file first, then everything of this checkout that it includes or imports, sorted.

    Raises FileNotFoundError when the kernel has no file, ValueError for a backend without kernel files.
    """
    root = root or operators.root(technique_path.partition("/")[0])
    path = kernel_file(backend, technique_path, root)
    if not path.is_file():
        raise FileNotFoundError(f"{backend} twin of {technique_path}: no file {path.relative_to(root)}; add it")
    return closure(path, root)


def closure(top: Path, root: Path) -> list[Path]:
    """A kernel's file first, then everything below `root` that it includes or imports, sorted."""
    found, todo = {top}, [top]
    while todo:
        path = todo.pop()
        for used in _imports(path, root) if path.suffix == ".py" else _includes(path, root):
            if used.is_file() and used not in found:
                found.add(used)
                todo.append(used)
    return [top, *sorted(found - {top})]


def is_persistent(technique_path: str) -> bool:
    """Whether a block of the CUDA kernel takes one tile after another, by the header that deals them out."""
    return any(path.name == "persistent_tiles.cuh" for path in files("cuda", technique_path))


def source_sha256(backend: str, technique_path: str, root: Path | None = None) -> str:
    """Hash over the code in `files`, paths left out: a row stays current when a comment changes or a file moves.

    triton and triton_native are one source, so one hash.
    """
    return sha256_of(files(backend, technique_path, root))


def sha256_of(files: Iterable[Path]) -> str:
    """One hash of the kernel's file, which comes first, and of what it includes or imports, in any order."""
    first, *rest = [_placeless(code(path)) for path in files]
    return hashlib.sha256("\0".join([first, *sorted(rest)]).encode()).hexdigest()


@cache
def _placeless(text: str) -> str:
    """Code without the folders of what it includes and imports from this checkout."""
    text = re.sub(r'(#\s*include\s*[<"])(?!ptx/)(?:\w+/)*(\w+\.cuh?[>"])', r"\1\2", text)
    return re.sub(r"\bfrom triton_kernels[.\w]* import\b", "import", text)


@cache
def harness_id() -> str:
    """Twelve hex digits of the code that rows depend on besides kernels and compilers."""
    rooms = ("catalog", "operators", "inspection", "machine", "measure", "build")
    python = [path for room in rooms for path in (ROOT / "harness" / room).rglob("*.py")]
    python += (ROOT / "cuda_kernels").glob("*.py")
    runtime = [path for path in (ROOT / "cuda_kernels" / "cpu").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted([*python, *runtime]):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0{code(path)}\0".encode())
    return digest.hexdigest()[:12]


def code(path: Path) -> str:
    """The text without comments, docstrings and blank lines; all of it for Python that does not parse."""
    return _code(path.read_text(), path.suffix == ".py")


def lines_of_code(path: Path) -> int:
    """Lines that hold code: no blank lines, no comments, no docstrings. 0 for Python that does not parse."""
    parses = path.suffix != ".py" or parse(path).body
    return len(code(path).splitlines()) if parses else 0


def parse(path: Path) -> ast.Module:
    """The syntax tree of a Python file; an empty one where it does not parse, which is for its compilation to say."""
    return _parse(path.read_text())


def same_program(technique_path: str, language: str, root: Path | None = None) -> str | None:
    """The technique that this twin re-exports, if its file does nothing else; else None.

    In Python that is a single `from triton_kernels.ladder.name import ...`, in CUDA a single `#include
    <ladder/name.cu>`. `language` is cuda, triton, triton_native, gluon or tlx.
    """
    path = kernel_file(language, technique_path, root)
    if not path.is_file():
        return None
    if language == "cuda":
        code = [line.strip() for line in _without_comments(path.read_text()).splitlines() if line.strip()]
        match = re.fullmatch(r"#\s*include\s*<\w+(?:/\w+)*/(\w+)\.cu>", code[0]) if len(code) == 1 else None
        return match[1] if match else None
    body = [node for node in parse(path).body if not _is_plumbing(node)]
    if len(body) == 1 and isinstance(body[0], ast.ImportFrom):
        match = re.fullmatch(r"triton_kernels\.(?:\w+\.)+(\w+)", body[0].module or "")
        return match[1] if match else None
    return None


def _includes(path: Path, root: Path) -> list[Path]:
    """Files of cuda_kernels/ that `path` includes; system headers are not there and drop out."""
    from cuda_kernels import includes

    folders = (*(base / "cuda_kernels" for base in _bases(root)), path.parent)
    return [place / name for name in includes.names(path.read_text()) for place in folders]


def _imports(path: Path, root: Path) -> list[Path]:
    """Files of triton_kernels/ that `path` imports by their full name."""
    files = [f"{name.replace('.', '/')}.py" for name in _imported(path.read_text())]
    return [base / file for file in files for base in _bases(root)]


def _bases(root: Path) -> tuple[Path, ...]:
    """Kernels of an operator that was registered may use what the checkout offers to all."""
    return (root, ROOT) if operators.is_registered(root) else (root,)


@cache
def _imported(text: str) -> tuple[str, ...]:
    """What may be a module of triton_kernels in the imports of a Python file."""
    modules: list[str] = []
    for node in _statements(_parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return tuple(name for name in modules if name.startswith("triton_kernels."))


@cache
def _parse(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


_PYTHON_COMMENT = re.compile(r"""(("{3}|'{3}|"|')(?:\\.|(?!\2).)*\2)|#[^\n]*""", re.DOTALL)
"""A string, which stays, or a comment: a fifth of the time that `tokenize` takes."""


@cache
def _code(text: str, is_python: bool) -> str:
    """Cached: most kernels include the same headers."""
    lines = (text if is_python else _without_comments(text)).splitlines()
    if is_python and (tree := _parse(text)).body:
        docstrings = _docstring_lines(tree)
        lines = _PYTHON_COMMENT.sub(r"\1", text).splitlines()
        lines = [line for number, line in enumerate(lines, 1) if number not in docstrings]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _without_comments(text: str) -> str:
    from cuda_kernels import includes

    return includes.without_comments(text)


def _statements(tree: ast.Module) -> list[ast.stmt]:
    """All statements, those inside others too."""
    found = list(tree.body)
    for node in found:
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, name, ())
    return found


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_plumbing(node: ast.stmt) -> bool:
    """A docstring, `from __future__ import ...` or `__all__ = ...`: says nothing about the program."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    return _is_docstring(node) or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _docstring_lines(tree: ast.Module) -> set[int]:
    """Lines of every bare string statement, docstrings first among them."""
    lines: set[int] = set()
    for node in _statements(tree):
        if _is_docstring(node):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines
