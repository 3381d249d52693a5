"""Machine code of many programs, of this checkout and of earlier commits: what `record --renew` compares.

A commit's kernel packages are laid out in build/commits/<sha>; a program's source is found there by its hash, whatever
the technique was called then: in the commit that was measured, or in the newest that has it. Programs in which the
compiler sees no difference are compiled once. Answers are kept by content in machine_code.txt, in build/ or
$TWINKERNELS_CACHE. Where Triton is given the same as before, nothing is compiled at all.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.catalog import sources
from harness.catalog.cases import Case, source_sha256
from harness.catalog.sources import ROOT
from harness.catalog.techniques import AS_CUBINS
from harness.machine import environment, processes
from harness.rows.renew import Program, Unknown
from harness.variants import cubins, machine_code
from harness.variants.compiling import shared_assembler
from harness.variants.cuda import constants
from harness.variants.errors import CompileError, Unsupported
from harness.variants.triton import twin_in
from harness.variants.variables import environment_of

COMMITS = ROOT / "build" / "commits"
KEPT = sources.CACHE / "machine_code.txt"
PACKAGES = ("cuda_kernels", "triton_kernels")
COMMITS_SEARCHED = 20
"""How far back a source is looked for: laying out a commit and hashing its kernels takes half a second."""

Place = tuple[Path, str, tuple[tuple[str, str], ...]]
"""Where a program is compiled: folder of the kernel packages, kernel file in it, variables of the process."""


def compile_all(programs: Sequence[Program], *, stop: Callable[[], bool]) -> Iterator[tuple[Program, str | Unknown]]:
    """Each program with the SHA-256 of its instructions, or why there is none, as they end, in as many processes as
    there are cores. Ends early once `stop()`."""
    kept = _Kept(KEPT)
    jobs: dict[tuple[Place, Any], list[Program]] = defaultdict(list)
    elsewhere: list[processes.Job] = []
    for program in programs:
        if program.backend in AS_CUBINS:
            elsewhere.append((by_its_triton, (program,)))
            continue
        place = locate(program)
        if isinstance(place, Unknown):
            yield program, place
        elif answer := kept.find(program, place):
            yield program, answer
        else:  # one job for the problems of a kernel at one tile: many are the same program
            problem = program.problem
            jobs[place, (program.arch, problem.dtype, problem.head_dim, problem.causal, program.tile)].append(program)
    by_process: dict[tuple[Any, Path], list[processes.Job]] = defaultdict(list)
    for ((root, kernel, variables), _), group in jobs.items():
        by_process[variables, root].append((_compile, (str(root), kernel, group)))
    for (variables, root), group_jobs in by_process.items():
        for (_, (_, kernel, group)), answers in processes.answers(group_jobs, dict(variables), stop=stop):
            for program in group:
                if isinstance(answers, processes.NoAnswer):
                    yield program, _unknown(answers.reason)
                else:
                    kept.add(program, (root, kernel, variables), answers[program])
                    yield program, answers[program]
    for (_, (program,)), answer in processes.answers(elsewhere, {}, stop=stop):
        yield program, _unknown(answer.reason) if isinstance(answer, processes.NoAnswer) else answer


def by_its_triton(program: Program) -> str | Unknown:
    """The machine code that another Triton than the installed one makes of this checkout's sources, or why there is
    none. What it made of earlier ones is in the row that measured it."""
    case = Case("renew", program.technique, program.backend, program.problem, program.tile)
    if source_sha256(case) != program.source_sha256:
        return Unknown("another Triton compiles this checkout's sources alone")
    try:
        about = cubins.compile(case, program.arch)
    except (Unsupported, CompileError) as error:
        return _unknown(str(error))
    here = about["compiler"]["front_end"], about["compiler"]["ptxas"]
    if here != program.compiler:
        return Unknown(f"compiled by {' with ptxas '.join(program.compiler)}; here is {' with ptxas '.join(here)}")
    return str(about["code"]["sass_sha256"])


def _unknown(words: str) -> Unknown:
    """The first line of what a compiler said."""
    return Unknown(environment.scrub(words).split("\n")[0])


def identify_all(programs: Sequence[Program]) -> Iterator[tuple[Program, str | Unknown]]:
    """Each Triton and Gluon program with a hash of all that its compiler is given, or why there is none. Triton's own
    cache names programs so; lines may move and comments may change, which it minds. Nothing is compiled: of two
    programs of one name and one compiler the machine code is the same. What nvcc is given is every header whole: of
    CUDA programs this says nothing.
    """
    kept = _Kept(KEPT, "given, without comments")
    jobs: dict[tuple[Path, str], list[Program]] = defaultdict(list)
    for program in programs:
        tells_nothing = program.backend == "cuda" or program.backend in AS_CUBINS
        place = Unknown("only compiling tells") if tells_nothing else locate(program)
        if isinstance(place, Unknown):
            yield program, place
        elif answer := kept.find(program, place):
            yield program, answer
        else:
            jobs[place[:2]].append(program)
    ordered: list[processes.Job] = [
        (_identify, (str(root), kernel, jobs[root, kernel])) for root, kernel in sorted(jobs)
    ]
    for (_, (_, _, group)), answers in processes.answers(ordered, {}):
        for program in group:
            if isinstance(answers, processes.NoAnswer):
                yield program, _unknown(answers.reason)
                continue
            answer = answers[program]
            if isinstance(answer, str):
                place = locate(program)
                assert not isinstance(place, Unknown)
                kept.add(program, place, answer)
            yield program, answer


class _Kept:
    """Answers of earlier calls, by what was compiled: sources, constants or flags, compiler. Each is appended to the
    file as it is given, so that an interrupted call costs only what it had not finished. `question` is what was asked
    of the program."""

    def __init__(self, path: Path, question: str = "machine code") -> None:
        self._path = path
        self._question = question
        lines = path.read_text().splitlines() if path.is_file() else []
        self._answers = dict(line.split() for line in lines if len(line) == 129)  # a torn last line is none

    def find(self, program: Program, place: Place) -> str | None:
        return self._answers.get(self._name(program, place))

    def add(self, program: Program, place: Place, answer: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(f"{self._name(program, place)} {answer}\n")

    def _name(self, program: Program, place: Place) -> str:
        _, kernel, variables = place
        what: list[Any] = [program.source_sha256, kernel, program.arch, program.compiler, program.commit]
        if program.backend == "cuda":
            what.append(_flags(program))
        else:
            levers = [(name, value) for name, value in variables if "PTXAS" not in name]  # a path says nothing
            what += [program.problem.slug, program.tile.slug, levers]
        return hashlib.sha256(json.dumps([self._question, *what]).encode()).hexdigest()


def _flags(program: Program) -> tuple[str, ...]:
    """nvcc's, by the build of whichever commit this process imports."""
    from cuda_kernels import build

    case = Case("renew", program.technique, program.backend, program.problem, program.tile)
    return tuple(build.flags(program.arch, constants(case)))


def locate(program: Program) -> Place | Unknown:
    """Where a program is compiled, or why it cannot be."""
    found = _sources(program.backend, program.source_sha256, program.commit)
    if isinstance(found, Unknown):
        return found
    root, kernel = found
    front_end, ptxas = program.compiler
    variables: dict[str, str] = {}
    if program.backend == "cuda":
        here = _nvcc()
    else:
        case = Case("renew", program.technique, program.backend, program.problem, program.tile)
        variables |= environment_of(case) or {}
        here = _triton()
        if here and here[1] != ptxas and (shared := _nvcc()) and shared[1] == ptxas:
            here = (here[0], ptxas)
            variables |= shared_assembler()
    if here != program.compiler:
        got = " with ptxas ".join(here) if here else "none"
        return Unknown(f"compiled by {front_end} with ptxas {ptxas}; here is {got}")
    return root, kernel, tuple(sorted(variables.items()))


@functools.cache
def _sources(backend: str, source_sha256: str, commit: str | None) -> tuple[Path, str] | Unknown:
    """Root and kernel file of the sources of this hash: in this checkout, in `commit`, or in the newest that has them
    of the last COMMITS_SEARCHED that changed kernels of the language."""
    if kernel := _kernels(ROOT, backend).get(source_sha256):
        return ROOT, kernel
    for each in filter(None, [commit, *_history(backend)]):
        root = lay_out(each)
        if isinstance(root, Path) and (kernel := _kernels(root, backend).get(source_sha256)):
            return root, kernel
    if commit and isinstance(absent := lay_out(commit), Unknown):
        return absent
    return Unknown(f"neither commit {str(commit)[:7]} nor one of the last {COMMITS_SEARCHED} holds what was measured")


@functools.cache
def _history(backend: str) -> list[str]:
    """Commits that changed kernels of the language, newest first; none outside a repository."""
    package = PACKAGES[backend != "cuda"]
    command = ["git", "log", f"-{COMMITS_SEARCHED}", "--format=%H", "--", package]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()


@functools.cache
def lay_out(commit: str) -> Path | Unknown:
    """The folder that holds the kernel packages of a commit."""
    folder = COMMITS / commit
    if folder.is_dir():
        return folder
    done = subprocess.run(["git", "archive", commit, "--", *PACKAGES], cwd=ROOT, capture_output=True)
    if done.returncode:
        return Unknown(f"commit {commit[:7]} is not in this repository: {done.stderr.decode().strip()}")
    COMMITS.mkdir(parents=True, exist_ok=True)
    partial = tempfile.mkdtemp(dir=COMMITS, suffix=".part")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(partial, filter="data")
    os.replace(partial, folder)
    return folder


@functools.cache
def _kernels(root: Path, backend: str) -> dict[str, str]:
    """`source_sha256` -> kernel file of every kernel of this backend below `root`."""
    files = sorted(root.glob("cuda_kernels/**/*.cu" if backend == "cuda" else "triton_kernels/**/*.py"))
    return {sources.sha256_of(path, root): path.relative_to(root).as_posix() for path in files}


@functools.cache
def _nvcc() -> tuple[str, str] | None:
    from cuda_kernels import toolchain

    tools = toolchain.find(toolchain.homes())
    return (f"nvcc {tools.nvcc}", tools.ptxas) if tools else None


@functools.cache
def _triton() -> tuple[str, str] | None:
    """Triton and the ptxas that it brings."""
    ptxas = environment.triton_ptxas()
    return (f"triton {metadata.version('triton')}", ptxas) if ptxas else None


def _compile(root: str, kernel: str, programs: Sequence[Program]) -> dict[Program, str]:
    """Runs in a process of its own environment; all programs are of one kernel file."""
    _import_from(root)
    compile_one = _compile_cuda if kernel.endswith(".cu") else _compile_triton
    known: dict[str, str] = {}
    return {program: compile_one(Path(root), kernel, program, known) for program in programs}


def _identify(root: str, kernel: str, programs: Sequence[Program]) -> dict[Program, str | Unknown]:
    """Runs in a process of its own; all programs are of one kernel file."""
    _import_from(root)
    found: dict[Program, str | Unknown] = {}
    stripped = False
    for program in programs:
        try:
            specialized = _specialized(kernel, program)
        except Exception as error:  # a tile that the language has not
            found[program] = Unknown(f"{type(error).__name__}: {error}".splitlines()[0])
            continue
        if not stripped:
            _strip_functions()
            stripped = True
        found[program] = hashlib.sha256(
            f"{specialized.function.cache_key} {_arguments(specialized)}".encode()
        ).hexdigest()
    return found


def _strip_functions() -> None:
    """Leaves of the functions of the kernel packages what their names shall depend on: no lines, comments and
    docstrings, nor which functions this process named before. Triton adds to a function's name the constants of those
    that it calls, but only of those that have a name already."""
    from triton.runtime.jit import JITCallable

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for function in vars(module).values():
                if isinstance(function, JITCallable):
                    function.starting_line_number = 0
                    function.used_global_vals = {}
                    function._unsafe_update_src(_without_words(function.src))


def _without_words(source: str) -> str:
    """The source of one function without comments and docstring."""
    tree = ast.parse(source)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _import_from(root: str) -> None:
    """Takes the kernel packages of this commit from now on."""
    if sys.path[0] != root:
        sys.path.insert(0, root)
        for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
            del sys.modules[name]


def _specialized(kernel: str, program: Program) -> Any:
    return twin_in(kernel).specialize(program.problem, None, program.tile, program.arch)


def _arguments(specialized: Any) -> str:
    """What a Triton function is compiled for."""
    return repr((specialized.signature, specialized.constexprs, specialized.attrs, vars(specialized.options)))


def _compile_cuda(root: Path, kernel: str, program: Program, known: dict[str, str]) -> str:
    """nvcc to a cubin: neither host code nor linking."""
    from cuda_kernels import build

    name = str(_flags(program))
    if name not in known:
        with tempfile.TemporaryDirectory() as folder:
            source, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
            source.write_text(f"#include <{kernel.removeprefix('cuda_kernels/')}>\n")
            nvcc, headers = build.toolchain().bin / "nvcc", f"-I{root / 'cuda_kernels'}"
            command: list[str | Path] = [nvcc, *_flags(program), headers, "-cubin", "-o", cubin, source]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{kernel} does not compile for {program.tile.slug}: {done.stderr.strip()}")
            known[name] = machine_code.disassemble(cubin).sass_sha256
    return known[name]


def _compile_triton(root: Path, kernel: str, program: Program, known: dict[str, str]) -> str:
    """Triton's compiler, once for problems that it does not tell apart."""
    specialized = _specialized(kernel, program)
    name = _arguments(specialized)
    if name not in known:
        known[name] = machine_code.read_triton(specialized.compile())["sass_sha256"]
    return known[name]
