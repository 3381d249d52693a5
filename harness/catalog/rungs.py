"""A new rung: its two files and its entry, made from another rung's, and whether all rungs' files and entries agree.

`python -m harness.catalog.rungs` prints what disagrees; lint runs it. Standard library only.
"""

import ast
import ctypes
import keyword
import re
import sys
from pathlib import Path

from harness import operators
from harness.catalog import sources, techniques
from harness.catalog.entries import Technique

COPIED = ("mma", "general", "repeats", "constant_strides")
"""Arguments of a parent's entry that hold for its copy; limits, reference tiles and grids are inherited."""
NAME = re.compile(r"[a-z][a-z0-9_]{2,}")
UNDESCRIBED = "not described yet"
UNCHANGED = "changes nothing yet"
CPP = """alignas alignof and_eq asm auto bitand bitor bool case catch char class compl concept const consteval constexpr
constinit const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit export
extern false float for friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private
protected public register reinterpret_cast requires short signed sizeof static static_assert static_cast struct switch
template this thread_local throw true typedef typeid typename union unsigned using virtual void volatile wchar_t xor
xor_eq"""
"""Keywords, apart from Python's."""
_KERNEL = re.compile(r"^KERNEL\([^)]*\)\s+(\w+)\(", re.MULTILINE)
_INCLUDES_A_KERNEL = re.compile(r"^#include <([\w/]+\.cu)>$", re.MULTILINE)
_BUILDS_ON = re.compile(r"\bBuilds on (?:\w+/)?(\w+)")


def write(name: str, parent: Technique, idea: str, root: Path | None = None) -> list[Path]:
    """Writes cuda_kernels/.../name.cu, triton_kernels/.../name.py and the entry of `name`, a copy of `parent` that
    changes nothing yet, and returns the three files. Raises ValueError when a name or an idea cannot be used."""
    root = root or sources.ROOT
    if not NAME.fullmatch(name):
        raise ValueError(
            f"NAME: got {name!r}, expected a C++ identifier in lower case of three characters or more, such as "
            "my_swizzle"
        )
    if any(kernel.name == name for kernel in techniques.kernels()):
        raise ValueError(f"NAME: got {name!r}, which the registry has already (`twinkernels list`)")
    if said := _means_already(name, parent):
        raise ValueError(f"NAME: got {name!r}, {said}; choose another name")
    if not idea.strip() or any(sign in idea for sign in '\n"\\'):
        raise ValueError(f"--idea: got {idea!r}, expected one line without quotation marks")
    ladder = ladder_file(parent, root)
    folder = Path(parent.path).parent
    cuda = root / "cuda_kernels" / folder / f"{name}.cu"
    triton = root / "triton_kernels" / folder / f"{name}.py"
    if taken := [str(path.relative_to(root)) for path in (cuda, triton) if path.exists()]:
        raise ValueError(f"NAME: got {name!r}, but {taken[0]} exists; choose another name, or delete that file")
    entry = _with_entry(ladder.read_text(), name, parent, idea)
    texts = {cuda: _cuda(name, parent, idea, root), triton: _triton(name, parent, idea, root), ladder: entry}
    for path, text in texts.items():
        path.write_text(text)
    return list(texts)


def ladder_file(technique: Technique, root: Path) -> Path:
    return root / "harness" / "operators" / technique.operator / "ladders" / f"{technique.ladder}.py"


def disagreements(root: Path | None = None) -> list[str]:
    """A line for each kernel file whose name, symbol or parent is not what the registry says."""
    root = root or sources.ROOT
    found = []
    for technique in techniques.rungs():
        for language, check in (("cuda", _fault_of_cuda), ("triton", _fault_of_triton)):
            file = sources.kernel_file(language, technique.path, root)
            text = file.read_text() if file.is_file() else ""
            fault = check(text, technique) if text else "is missing; the entry names it"
            begun = (f"its head says {one!r}" for one in (UNCHANGED, UNDESCRIBED) if one in text)
            if fault := fault or next(begun, None):
                found.append(f"{file.relative_to(root)}: {fault}")
    known = {technique.path for technique in techniques.rungs()}
    for folder in sorted({Path(path).parent for path in known}):
        for room, suffix in (("cuda_kernels", ".cu"), ("triton_kernels", ".py")):
            for file in sorted((root / room / folder).glob(f"[a-z]*{suffix}")):
                if (folder / file.stem).as_posix() not in known:
                    found.append(f"{file.relative_to(root)}: has no entry in the ladder {folder.name}")
    return found


def _means_already(name: str, parent: Technique) -> str | None:
    """What else the name stands for where a copy of `parent` is compiled, imported or called; None for nothing."""
    if keyword.iskeyword(name) or name in CPP.split():
        return "a keyword of C++ or Python"
    if name in (*operators.names(), *operators.peers(), *techniques.SERIES):
        return "an operator, a library or a backend"
    if hasattr(ctypes.CDLL(None), name):
        return "a function of the C library"
    for file in (*sources.files("cuda", parent.path), sources.kernel_file("triton", parent.path)):
        if re.search(rf"\b{name}\b", sources.code(file)):
            return f"a name in {file.name}"
    return None


def _fault_of_cuda(text: str, technique: Technique) -> str | None:
    symbols = _KERNEL.findall(text)
    if technique.name not in symbols and not _INCLUDES_A_KERNEL.search(text):
        return f"its kernel is {' and '.join(symbols) or 'missing'}, expected the file's name, {technique.name}"
    parent = techniques.parent(technique)
    said = _BUILDS_ON.search(_head(text))
    if parent and (said is None or said[1] not in technique.builds_on):
        told = f"says it builds on {said[1]}" if said else "does not say what it builds on"
        return f"its head {told}, expected: Builds on {parent.name}"
    return None


def _fault_of_triton(text: str, technique: Technique) -> str | None:
    tree = ast.parse(text)
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "twin" for node in tree.body):
        return None
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if technique.name not in functions:
        return f"it has no function {technique.name}, the file's name, and does not import another rung's twin"
    return None if re.search(r"^twin = ", text, re.MULTILINE) else "it does not end in twin = Twin(...)"


def _head(text: str) -> str:
    """The comment that a CUDA file begins with, as one line."""
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("//")), len(lines))
    return " ".join(line.removeprefix("//").strip() for line in lines[:end])


def _cuda(name: str, parent: Technique, idea: str, root: Path) -> str:
    file = sources.kernel_file("cuda", parent.path, root)
    text = file.read_text()
    if include := _INCLUDES_A_KERNEL.search(text):  # of another tile: the kernel is there
        file = root / "cuda_kernels" / include[1]
        text = file.read_text()
    _, _, code = text.partition("\n#include")
    symbol = re.escape(file.stem)
    code = re.sub(rf"(^KERNEL\([^)]*\)\s+){symbol}(?=\()", rf"\g<1>{name}", code, flags=re.MULTILINE)
    used = r"\b(?:launch_kernel\w*|consider)<|^constexpr void \(\*kernel\)\(\w+\) = "
    code = re.sub(rf"({used}){symbol}\b", rf"\g<1>{name}", code, flags=re.MULTILINE)
    return f"// {_sentence(idea)}\n// {_builds_on(parent)}\n#include{code}"


def _triton(name: str, parent: Technique, idea: str, root: Path) -> str:
    file = sources.kernel_file("triton", parent.path, root)
    text = file.read_text()
    tree = ast.parse(text)
    same = next((node for node in tree.body if isinstance(node, ast.ImportFrom) and node.names[0].name == "twin"), None)
    if same:
        origin = str(same.module).rpartition(".")[2]
        said = f"{_builds_on(parent)}\n\nSo this is the same program as {origin}."
        return f'"""{_sentence(idea)}\n\n{said}\n"""\n\nfrom {same.module} import twin  # noqa: F401\n'
    body = "".join(text.splitlines(keepends=True)[tree.body[0].end_lineno :])
    body = re.sub(rf"(^def |^twin = .*\(){re.escape(file.stem)}\b", rf"\g<1>{name}", body, flags=re.MULTILINE)
    return f'"""{_sentence(idea)}\n\n{_builds_on(parent)}\n"""\n{body}'


def _builds_on(parent: Technique) -> str:
    return f"Builds on {parent.name}; {UNCHANGED}. Data moves as in {parent.name}."


def _sentence(idea: str) -> str:
    return f"{idea[0].upper()}{idea[1:].rstrip('.')}."


def _with_entry(text: str, name: str, parent: Technique, idea: str) -> str:
    """The ladder's file with an entry for `name` behind that of its parent."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and node.args)
    call = next(one for one in calls if isinstance(one.args[0], ast.Constant) and one.args[0].value == parent.name
                and getattr(one.func, "id", "") == "Technique")  # fmt: skip
    words = {one.arg: ast.get_source_segment(text, one.value) for one in call.keywords}
    arguments = [f'"{name}"', f'"{idea}"', f'builds_on=("{parent.name}",)']
    arguments += [f"{word}={words[word]}" for word in COPIED if word in words]
    entry = "    Technique(\n" + "".join(f"        {one},\n" for one in arguments) + "    ),\n"
    lines = text.splitlines(keepends=True)
    assert call.end_lineno is not None
    return "".join([*lines[: call.end_lineno], entry, *lines[call.end_lineno :]])


if __name__ == "__main__":
    faults = disagreements()
    sys.exit("\n".join(faults) if faults else 0)
