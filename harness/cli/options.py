"""What the commands take: types of options, and names turned into techniques, backends, problems and experiments.

A name that is not known is bad usage; the nearest known ones are named. What another machine could do is no bad usage:
the command says what this one lacks.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from harness import operators
from harness.catalog import architectures, own, sources, techniques
from harness.catalog import experiments as catalog
from harness.catalog.entries import NamedExperiment, Technique, Tile
from harness.catalog.text import plain
from harness.operators.protocol import Operator, Problem
from harness.setup import bootstrap

if TYPE_CHECKING:
    from harness.measure.own import Chosen


class On(StrEnum):
    gpu = "gpu"
    cpu = "cpu"


class Ptxas(StrEnum):
    bundled = "bundled"
    shared = "shared"


def completing(words: Iterable[str]) -> Callable[[str], list[str]]:
    """What a shell offers for the beginning of a word."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def split(names: Iterable[str] | None) -> tuple[list[str], list[str]]:
    """The words of the command line that name techniques, and those that name files of the user's, rightly or not."""
    words = list(names or ())
    files = [word for word in words if NO_NAME.search(word) and word.partition("/")[0] not in operators.names()]
    return [word for word in words if word not in files], files


NO_NAME = re.compile("[.:/]")
"""Occurs in no technique's name, but in names of files, and between an operator and a name of its own."""


NAMES = [techniques.shown(technique) for technique in techniques.kernels()]
RUNGS = [techniques.shown(technique) for technique in techniques.rungs()]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TECHNIQUE", help="Names from `list`; default: all rungs.", autocompletion=completing(NAMES)
    ),
]
SERIES = ", ".join(techniques.SERIES)
MOST_LISTED = 24
"""Names in a message; of more, the first three and where the others are."""
NEAR = 0.62
"""How alike two names are, by difflib, for one to be meant by the other: more than 9.9.9 and 3.9.0."""
PART = r"[bhnqdsw]\d+(k\d+)?|\d+x\d+|[a-z_]{4,}\d+"
"""Of the slug of a problem or tile, what is no word: d128, h6k2, 64x128, num_ctas2."""
NamesOrFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TECHNIQUE|FILE",
        help=f"Names from `list`, or kernels of your own ({own.EXPECTED}); default: all rungs.",
        autocompletion=completing(NAMES),
    ),
]
Backends = Annotated[
    list[str] | None,
    typer.Option(
        "--backend",
        help=f"Of {SERIES}; repeat for several; default: all.",
        autocompletion=completing(techniques.SERIES),
    ),
]
EXAMPLE = operators.get(operators.FIRST).problem.example
Problems = Annotated[
    list[str] | None,
    typer.Option("--problem", help=f"A slug such as {EXAMPLE}; repeat for several."),
]
Arch = Annotated[str | None, typer.Option(help="sm_80, sm_90a or sm_120a; default: all that the ladder names.")]
OwnTile = Annotated[
    str | None,
    typer.Option("--tile", help="Tile of your own .cu file; default: the first one on tensor cores."),
]
Where = Annotated[On | None, typer.Option("--on", help="Default: gpu if there is one.")]
OfOperator = Annotated[
    str | None, typer.Option("--operator", help="Of a kernel of your own, where no --problem says it.")
]
Shard = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Take every Nth problem from the Ith, so that N processes share the work."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@contextmanager
def bad_usage(option: str = "") -> Iterator[None]:
    """A ValueError inside is the user's doing: the command ends with its words, after `option`."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(plain(f"{option}{error}")) from None


def require_known(
    kind: str, names: Iterable[str], known: Iterable[str], shown_by: str = "`twinkernels list`", expected: str = ""
) -> None:
    """Bad usage for the first of the names that is not known. The message suggests the nearest ones, of the operator
    before the slash if the name has one. If none is near, it says what is `expected`, by default the first known ones
    and the command that lists all."""
    known = list(dict.fromkeys(known))
    for name in names:
        if name not in known:
            operator, _, stem = name.rpartition("/")
            here = [one for one in known if operator in operators.names() and operator in _operators_of(one)] or known
            by_stem: dict[str, list[str]] = {}
            for one in here:
                by_stem.setdefault(one.rpartition("/")[2], []).append(one)
            near = difflib.get_close_matches(stem.lower(), by_stem, n=3, cutoff=NEAR)
            close = [one for stem in near for one in by_stem[stem]]
            listed = ", ".join(here) if len(here) <= MOST_LISTED else f"{', '.join(here[:3])} ...; see {shown_by}"
            hint = f"did you mean {' or '.join(close)}?" if close else expected or f"known: {listed}"
            raise typer.BadParameter(f"{kind}: got {name!r}, {hint}")


def _operators_of(name: str) -> list[str]:
    """The operator that a name of a technique or an experiment begins with, else that of its technique."""
    operator = name.rpartition("/")[0]
    return [operator] if operator else [one.operator for one in techniques.kernels() if techniques.key(one) == name]


def require_words_of_cells(words: Iterable[str], recorded: Iterable[str]) -> None:
    """Bad usage for the first word that is no technique, backend or peer, no word of a recorded cell, no file of the
    user's, and neither problem nor tile nor a part of one."""
    backends = (*techniques.SERIES, *techniques.ON_REQUEST, *operators.peers())
    problems = (one for operator in operators.every() for one in (operator.benchmark, *operator.other_problems))
    slugs = [*sorted(recorded), *(problem.slug for problem in problems)]
    stems = (kernel.name for kernel in techniques.kernels())
    known = dict.fromkeys((*stems, *backends, *slugs, *(part for slug in slugs for part in slug.split("-"))))
    others = (word for word in words if not (word in known or own.is_kernel(word) or operators.is_problem(word)))
    parts = (part for word in others for part in word.split("-"))
    unknown = (part for part in parts if not re.fullmatch(PART, part))
    expected = f"expected a backend ({SERIES}), a technique (`twinkernels list`), a problem, a tile or a part of one"
    require_known("CELL", unknown, known, expected=expected)


def chosen(names: list[str] | None, slugs: Iterable[str] | None = None, asked: str | None = None) -> tuple[str, ...]:
    """The techniques and ablations named, or all techniques of the operator, in the order of the registry."""
    for name in names or ():
        if name in operators.peers():
            raise typer.BadParameter(f"technique: got {name!r}, a library; `twinkernels bench --peer {name}` times it")
        if NO_NAME.search(name) and name.partition("/")[0] not in operators.names():
            raise typer.BadParameter(
                f"technique: got {name!r}, expected a name of `twinkernels list`; of a kernel of your own "
                "`twinkernels check FILE --report` shows the machine code"
            )
    operator = operator_of(names, slugs, asked)
    _require_techniques(name for name in names or () if not techniques.find(name))
    wanted = [name.rpartition("/")[2] for name in names or ()] or [one.name for one in operator.techniques]
    known = (*operator.techniques, *operator.ablations)
    return tuple(techniques.shown(one) for one in known if one.name in wanted)


def technique_called(name: str) -> Technique:
    """The technique or ablation of this name. Bad usage for one that is not known, or that several operators have."""
    with bad_usage():
        found = techniques.find(name)
    _require_techniques([] if found else [name])
    return techniques.get(name)


def _require_techniques(names: Iterable[str]) -> None:
    for name in names:
        if name in operators.names():
            raise typer.BadParameter(f"technique: got {name!r}, an operator; `twinkernels list` shows its techniques")
        if name in (*catalog.names(), *catalog.full_names()):
            raise typer.BadParameter(f"technique: got {name!r}, an experiment; `twinkernels run {name}` runs it")
        require_known("technique", [name], NAMES)


def operator_of(names: Iterable[str] | None, slugs: Iterable[str] | None = None, asked: str | None = None) -> Operator:
    """The operator of techniques and problems, or the one asked for; by default the first. Bad usage where they are of
    several, and for a name that several operators have."""
    if asked:
        require_known("--operator", [asked], operators.names())
    with bad_usage():
        known = ((name, techniques.find(name)) for name in names or ())
        said = [("technique", name, technique.operator) for name, technique in known if technique]
        said += [("--operator", asked, asked)] if asked else []
        for slug in slugs or ():
            try:
                problem = operators.parse(slug)
            except ValueError:
                problem = operators.parse(slug, said[0][2] if said else None)  # raises with that operator's example
            said.append(("--problem", slug, problem.operator))
    if not said:
        return operators.get(operators.FIRST)
    _, first, name = said[0]
    of = operators.get(name)
    for option, got, other in said:
        if other != name:
            step = f"expected one such as {of.problem.example}" if option == "--problem" else "run the command for each"
            raise typer.BadParameter(f"{option}: got {got}, of {other}, but {first} is of {name}; {step}")
    return of


def chosen_kernels(files: Sequence[str], tile: Tile | None) -> Chosen:
    """The kernels of the user's that files name; a .cu file is built for `tile`."""
    with bad_usage():
        kernels = tuple(own.parse(file) for file in files)

    from harness.measure.own import Chosen

    with bad_usage():
        return Chosen(kernels, tile=tile)


def chosen_backends(
    asked: list[str] | None,
    known: Sequence[str],
    option: str = "--backend",
    of: Sequence[str] = (),
    default: Sequence[str] = (),
    further: Sequence[str] = (),
) -> tuple[str, ...]:
    """The backends asked for, else the default or all that are known. Bad usage for one without a kernel of `of`."""
    for backend in asked or ():
        if backend in techniques.SERIES and backend not in known:
            raise typer.BadParameter(f"{option}: got {backend!r}, which is not run here; expected {', '.join(known)}")
    require_known(option, asked or (), (*known, *further))
    for backend in asked or ():
        if of and not any(sources.has_series(backend, techniques.get(name).path) for name in of):
            having = [techniques.shown(each) for each in techniques.rungs() if sources.has_series(backend, each.path)]
            raise typer.BadParameter(
                f"{option}: got {backend!r}, which has no kernel of {', '.join(of)}, but of {', '.join(having)}"
            )
    return tuple(asked or default or known)


def chosen_problems(slugs: list[str] | None, default: Sequence[Any]) -> tuple[Any, ...]:
    """The problems that slugs name, each once, else the default. Bad usage for what is no slug."""
    with bad_usage():
        return tuple(dict.fromkeys(operators.parse(slug) for slug in slugs or [])) or tuple(default)


def chosen_tile(slug: str | None) -> Tile | None:
    """The tile that a slug names. Bad usage for what is no slug."""
    with bad_usage():
        return Tile.parse(slug) if slug else None


def experiments() -> dict[str, str]:
    """Name of each experiment -> the question it asks."""
    return {shown: catalog.question(name) for name, shown in catalog.shown().items()}


def load_experiment(name: str, place: str = "gpu") -> NamedExperiment:
    """The experiment of this name; for a CPU its WITHOUT_GPU. Bad usage where there is none."""
    called = [
        techniques.shown(kernel) for kernel in techniques.kernels() if name in (kernel.name, techniques.shown(kernel))
    ]
    if called and name not in catalog.names():
        raise typer.BadParameter(
            f"experiment: got {name!r}, a technique; `twinkernels check {called[0]}` or "
            f"`twinkernels bench {called[0]}` runs it"
        )
    known = [shown for shown in catalog.shown().values() if shown.rpartition("/")[2] == name]
    if len(known) > 1:
        raise typer.BadParameter(f"experiment: got {name!r}, expected {' or '.join(sorted(known))}")
    require_known("experiment", [name], [*experiments(), *catalog.full_names()])
    if place == "gpu":
        return catalog.load(name)
    if (small := catalog.without_gpu(name)) is None:
        raise typer.BadParameter(
            f"--on: got cpu, but {name} is for a GPU: thread by thread its problems take hours; "
            "`twinkernels check --on cpu` has small ones"
        )
    return small


def missing(what: str) -> NoReturn:
    """Ends a command that this machine lacks something for. `what` names that and the next step."""
    typer.echo(what, err=True)
    raise typer.Exit(2)


def gpu_is_here() -> bool:
    """Whether torch sees a GPU. Without NVIDIA's driver it sees none, and need not be loaded, which takes seconds."""
    if "torch" not in sys.modules and not bootstrap.has_gpu():
        return False
    import torch

    return bool(torch.cuda.is_available())


def where(on: On | None) -> str:
    """gpu or cpu: what was asked for, else gpu where torch sees one. Ends the command when there is none to ask for."""
    if on is None:
        return "gpu" if gpu_is_here() else "cpu"
    if on is On.gpu and not gpu_is_here():
        missing("--on: got gpu, but torch sees none; `twinkernels doctor` says what is missing")
    return on.value


def require_gpu(of: str = operators.FIRST) -> None:
    """Ends a command that launches kernels of an operator on a GPU, where there is none."""
    if not gpu_is_here():
        missing(
            "this command needs a GPU, but torch sees none; `twinkernels doctor` says what is missing. Without one: "
            f"`twinkernels check --on cpu`, `twinkernels run {of}/correctness --on cpu`, or "
            f"`python experiments/{of}/ladder.py`, "
            "which prints what is recorded"
        )


def refuse(option: str, why: str, others: Mapping[str, object]) -> None:
    """Bad usage when one of the other options was given beside `option`, which would ignore it."""
    if given := [name for name, value in others.items() if value]:
        raise typer.BadParameter(f"{', '.join(given)}: got it with {option}, but {why}; leave one of them out")


def refuse_without(needed: str, why: str, others: Mapping[str, object]) -> None:
    """Bad usage when one of the other options was given, which do nothing without `needed`."""
    if given := [name for name, value in others.items() if value]:
        raise typer.BadParameter(f"{', '.join(given)}: got it without {needed}, but {why}; leave it out, or add that")


def chosen_archs(arch: str | None) -> tuple[str, ...] | None:
    """The one named; None stands for all that a technique's ladder names."""
    if arch is None:
        return None
    require_known("--arch", [arch], architectures.CAPABILITY)
    return (arch,)


def part(
    problems: Sequence[Problem], shard: str | None, together: Callable[[Problem], object] = lambda problem: problem
) -> tuple[Problem, ...]:
    """The problems of one shard, or all of them; what is equal by `together` stays in one. Bad usage when `shard` is
    not I/N or has no problem."""
    if shard is None:
        return tuple(problems)
    whole = list(dict.fromkeys(together(problem) for problem in problems))
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", shard)
    if not found or not int(found[1]) <= int(found[2]) <= len(whole):
        raise typer.BadParameter(
            f"--shard: got {shard!r}, expected I/N such as 1/{len(whole)}: I from 1 to N, N at most {len(whole)}, "
            "the number of problems"
        )
    mine = set(whole[int(found[1]) - 1 :: int(found[2])])
    return tuple(problem for problem in problems if together(problem) in mine)
