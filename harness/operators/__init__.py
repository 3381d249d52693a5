"""The operators by name. Each is a folder whose operator.py has OPERATOR; importing that needs no torch."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from harness.operators.protocol import Operator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VARIABLE = "TWINKERNELS_OPERATORS"
"""Folders of further operators, for processes that are started later."""
FIRST = "attention"
"""The operator of rows and slugs that name none."""
ORDER = (FIRST, "gemm")
"""Operators in the order in which they came, those of later ones behind them: a short name that two have stays what it
was."""

_operators: dict[str, Operator] = {}
_roots: dict[str, Path] = {}


def register(folder: Path | str) -> Operator:
    """Adds the operator of a folder, for this process and those it starts. Its kernels lie in the folder, as the
    project's own lie in the checkout: cuda_kernels/<operator>/..., triton_kernels/<operator>/...

    Raises ValueError for a folder that describes no operator, and for a second operator of one name.
    """
    folder = Path(folder).resolve()
    name = folder.name
    if name in _operators:
        if _operators[name].folder == folder:
            return _operators[name]
        raise ValueError(f"operator: got {folder}, but {name} is {_operators[name].folder}; rename the folder")
    if not (folder / "operator.py").is_file():
        raise ValueError(f"operator: got {folder}, expected a folder whose operator.py has OPERATOR")
    operator = _load(name, folder)
    _roots[name] = folder
    others = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*others, str(folder)]))
    return operator


def names() -> tuple[str, ...]:
    """All operators, the project's own first."""
    _discover()
    return tuple(_operators)


def get(name: str) -> Operator:
    """The operator of this name. Raises KeyError that lists the known ones."""
    _discover()
    if name not in _operators:
        raise KeyError(f"operator: got {name!r}, expected one of {', '.join(_operators)}")
    return _operators[name]


def every() -> tuple[Operator, ...]:
    _discover()
    return tuple(_operators.values())


def of(problem: Any) -> Operator:
    return get(problem.operator)


def peers() -> tuple[str, ...]:
    return tuple(dict.fromkeys(peer for operator in every() for peer in operator.peers))


def by_triton() -> tuple[str, ...]:
    return tuple(peer for operator in every() for peer in operator.by_triton)


def anchors() -> tuple[str, ...]:
    """The library of each operator that every interleaved group contains."""
    return tuple(dict.fromkeys(operator.anchor for operator in every() if operator.anchor))


def root(name: str) -> Path:
    """The folder that holds cuda_kernels/<name> and triton_kernels/<name>: the checkout, unless the operator was
    registered."""
    return _roots.get(name, ROOT)


def is_registered(folder: Path) -> bool:
    """Whether the folder holds the kernels of an operator that was registered."""
    return folder in _roots.values()


def parse(slug: str, operator: str | None = None) -> Any:
    """The problem that a slug names, of whichever operator reads it. Raises ValueError."""
    known = every() if operator is None else (get(operator),)
    faults: dict[str, ValueError] = {}
    for one in known:
        try:
            return one.problem.parse(slug)
        except ValueError as fault:
            faults[one.name] = fault
    raise faults.get(slug.partition("-")[0], next(iter(faults.values())))


def is_problem(word: str) -> bool:
    """Whether some operator reads it as a slug."""
    try:
        parse(word)
    except ValueError:
        return False
    return True


def problem_of(data: Mapping[str, Any], operator: str | None = None) -> Any:
    """The problem of a row's dict; of the first operator where the row names none."""
    return get(operator or FIRST).problem.from_dict(data)


def _discover() -> None:
    if FIRST in _operators:
        return
    own = {path.parent.name: path.parent for path in HERE.glob("*/operator.py")}
    for folder in [*map(own.pop, ORDER), *(own[name] for name in sorted(own))]:
        _load(folder.name, folder)
    for place in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        register(place)


def _load(name: str, folder: Path) -> Operator:
    module = f"{__name__}.{name}"
    if folder.parent != HERE:
        spec = ModuleSpec(module, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[module] = importlib.util.module_from_spec(spec)
    operator = getattr(importlib.import_module(f"{module}.operator"), "OPERATOR", None)
    if not isinstance(operator, Operator) or operator.name != name:
        raise ValueError(f"operator: got {folder}, expected its operator.py to have OPERATOR, named {name}")
    _operators[name] = operator
    return operator
