"""A kernel of the user's, anywhere on disk: a Python function, or a .cu file by the twin contract. Standard library
only.

The function is called as `Operator.calling` says. It declines a problem by raising NotImplementedError. The .cu file
ends in `EXPORT int launch(const <Arguments>* args, void* stream)`, as every file of cuda_kernels/ does; by 801,
cudaErrorNotSupported, it declines.
"""

import ast
import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.catalog import sources
from harness.catalog.text import plain

BACKEND = "own"
EXPECTED = "FILE.py:FUNCTION or FILE.cu"


@dataclass(frozen=True)
class Kernel:
    """`path` is absolute; `function` is None for a .cu file."""

    path: Path
    function: str | None

    def __str__(self) -> str:
        return ":".join(filter(None, (str(self.path), self.function)))

    @property
    def name(self) -> str:
        """What rows and tables call it, whatever the folder: my_kernel.py:attend."""
        return ":".join(filter(None, (self.path.name, self.function)))


def is_kernel(text: str) -> bool:
    """Whether a word of the command line means a file, not a technique."""
    return re.search(r"\.(py|cu)(:|$)|/", text) is not None


def parse(text: str) -> Kernel:
    """The kernel that `text` names, relative to the working folder. Raises ValueError."""
    file, function = text, ""
    if not text.endswith(".cu") and ":" in text:
        file, _, function = text.rpartition(":")  # a folder may have a colon too
    path = Path(file).expanduser().absolute()
    if path.suffix not in (".py", ".cu") or (path.suffix == ".py") != bool(function):
        raise ValueError(f"kernel: got {text!r}, expected {EXPECTED}")
    if plain(text) != text or "\n" in text or "\t" in text:  # rows, logs and pages hold the name
        raise ValueError(f"kernel: got {text!r}, expected a path without control characters; rename it")
    try:
        if not path.is_file():
            raise ValueError(f"kernel: got {text!r}, but there is no file {file}; expected {EXPECTED}")
    except OSError as error:
        raise ValueError(
            f"kernel: got a path of {len(text)} characters ({error.strerror}); expected {EXPECTED}"
        ) from None
    try:
        code = path.read_text(encoding="utf-8")
        if function:
            ast.parse(code, path.name)
    except (OSError, SyntaxError, ValueError) as error:
        wrong = f"is not readable as code in UTF-8 ({error})"
        if isinstance(error, SyntaxError) and error.lineno:
            wrong = f"has a syntax error at line {error.lineno}: {error.msg}"
        raise ValueError(f"kernel: got {text!r}, which {wrong}; mend it") from None
    if function and not {function, "*"} & set(_functions(path)):
        raise ValueError(f"kernel: got {text!r}, but {path.name} has {_offered(path)}")
    return Kernel(path, function or None)


def of_function(function: Callable[..., Any]) -> Kernel:
    """The kernel that a function of this process is. Raises ValueError for one that no other process can import."""
    name, file = getattr(function, "__qualname__", repr(function)), None
    if inspect.isfunction(function) and getattr(sys.modules.get(function.__module__), name, None) is function:
        file = inspect.getsourcefile(inspect.unwrap(function))  # not the file of its decorator
    if file is None or not Path(file).is_file() or name not in _functions(Path(file)):
        raise ValueError(
            f"kernel: got {name}, expected a function at the top level of a file, which the process that times it "
            "imports; write it into one, or name what the file has: my_kernel.py:attend"
        )
    return Kernel(Path(file).absolute(), name)


def source_sha256(kernel: Kernel) -> str:
    """Hash over the code of the file and of what it includes or imports from its own folder and from this checkout."""
    digest = hashlib.sha256()
    for path in files(kernel):
        name = path.relative_to(sources.ROOT).as_posix() if path.is_relative_to(sources.ROOT) else path.name
        digest.update(f"{name}\0{sources.code(path)}\0".encode())
    return digest.hexdigest()


def uses_triton(kernel: Kernel) -> bool:
    """Whether its files import Triton: those are the kernels that Triton's interpreter runs on a CPU."""
    return kernel.path.suffix == ".py" and any("triton" in _modules(path) for path in files(kernel))


def files(kernel: Kernel) -> list[Path]:
    """The kernel's file, then all that belongs to it, sorted."""
    top = kernel.path
    found, todo = set(sources.closure(top, sources.ROOT)), [top]
    while todo:
        path = todo.pop()
        beside = [path.parent / f"{name}.py" for name in _modules(path)] if path.suffix == ".py" else []
        new = {file for file in beside if file.is_file()} - found
        found |= new
        todo += new
    return [top, *sorted(found - {top})]


def _modules(path: Path) -> set[str]:
    """First names of what a Python file imports."""
    names: set[str] = set()
    for node in ast.walk(sources.parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _offered(path: Path) -> str:
    """The functions of a file that may be meant as a kernel of the user's, and what to do."""
    public = (node for node in sources.parse(path).body if isinstance(node, ast.FunctionDef) and node.name[0] != "_")
    names = [node.name for node in public if "jit" not in " ".join(map(ast.unparse, node.decorator_list))]
    return f"{', '.join(names)}; name one of them" if names else "no public `def` for Python to call; write one there"


def _functions(path: Path) -> list[str]:
    """What a Python file defines or binds outside functions and classes, by name; all that is bound, as a decorator or
    an import may make a function too. "*" stands for what it imports unnamed."""
    names: list[str] = []
    todo: list[ast.AST] = [sources.parse(path)]
    for node in todo:
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif not isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            todo += ast.iter_child_nodes(node)
    return list(dict.fromkeys(names))
