"""Compiles what kernels.lock needs after an edit: `twinkernels build --lock`. harness/rows/lock.py has the format."""

import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import operators
from harness.build import compiling, machine_code
from harness.build.cuda import constants
from harness.build.triton import environment_of, specialized
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.machine import processes
from harness.rows import lock
from harness.rows.lock import DIGITS, Kernel, Key
from harness.rows.reading import problem_of, technique_of, twin

SECONDS = 600.0
"""Deadline of one program."""


@dataclass
class Outcome:
    """What became of the programs that recorded rows measured."""

    compiled: int = 0
    same: int = 0
    """Programs of a moved source with the machine code that was measured."""
    different: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Program -> what its compiler said."""


Program = tuple[str, str]
"""(problem, tile), slugs."""
Progress = Callable[[int, int, str], None]


def measured(rows: Iterable[Mapping[str, Any]]) -> dict[Key, dict[Program, tuple[str, str]]]:
    """Kernel.key -> program -> (source, SASS), as recorded rows tell: the newest of each program."""
    found: dict[Key, dict[Program, tuple[str, str]]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: str(row["time"])):
        compiler, sass = row.get("compiler") or {}, (row.get("code") or {}).get("sass_sha256") or row.get("sass_sha256")
        if not (sass and "ptxas" in compiler and row.get("tile") and technique_of(row)):
            continue
        name, backend = twin(row)
        program = problem_of(row).slug, Tile.from_dict(row["tile"]).slug
        named = lock.program(name, backend, program[1])
        key = (named, backend, row["arch"], compiler["front_end"], compiler["ptxas"])
        found[key][program] = row["source_sha256"][:DIGITS], sass[:DIGITS]
    return found


def update(
    rows: Iterable[Mapping[str, Any]],
    names: Iterable[str],
    path: Path = lock.PATH,
    *,
    progress: Progress = lambda done, total, label: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Brings the lock up to date for these techniques. Programs whose rows are of this checkout's source are entered as
    their rows say. Those of another source that launches alike are compiled, kernel by kernel, and the lock is written
    after each kernel, so that an interrupted call costs one kernel."""
    kernels, outcome, wanted = lock.read(path), Outcome(), set(names)
    moved: list[tuple[Kernel, dict[Program, tuple[str, str]]]] = []
    for key, programs in measured(rows).items():
        (name, _, rung), backend = key[0].partition(":"), key[1]
        technique = techniques.of_qualified(name)
        if techniques.shown(technique) not in wanted or not sources.kernel_file(backend, technique.path).is_file():
            continue
        now = sources.source_sha256(backend, technique.path)[:DIGITS]
        launched = techniques.get(f"{technique.operator}/{rung}") if rung else technique
        host = lock.host_sha256(backend, launched.path)[:DIGITS]
        known = kernels.get(key)
        if known and known.source != now and now in known.sources:  # an edit that was taken back
            known = None
        if known is None or known.source == now:
            kernel = known or Kernel(*key)
            kernel.sources.setdefault(now, host)
            for (problem, tile), (source, sass) in programs.items():
                if source == now:
                    kernel.cells.setdefault((tile, sass), problem)
            if kernel.cells:
                kernels[key] = kernel
            continue
        kernel = Kernel(*key, sources={now: host, **{one: its for one, its in known.sources.items() if its == host}})
        kernel.cells = {(tile, sass): problem for (problem, tile), (one, sass) in programs.items() if one == now}
        alike = {program: made for program, made in programs.items() if made[0] != now and made[0] in kernel.sources}
        moved.append((kernel, alike))
    path.write_text(lock.text(kernels.values()))
    total = sum(len(programs) for _, programs in moved)
    for kernel, programs in moved:
        if stop():
            break
        before = set(kernels[kernel.key].cells)
        split = set()  # machine code that some programs no longer have
        answers = dict(compile_all(kernel, programs, stop))
        if len(answers) < len(programs) and stop():
            break
        for (problem, tile), answer in answers.items():
            outcome.compiled += 1
            progress(outcome.compiled, total, f"{kernel.technique} {kernel.backend} {problem} {tile}")
            if isinstance(answer, processes.NoAnswer):
                outcome.failed[f"{kernel.technique} {kernel.backend} {problem} {tile}"] = answer.reason.split("\n")[0]
                continue
            kernel.cells[tile, answer] = problem
            same = answer == programs[problem, tile][1] and (tile, answer) in before
            outcome.same += same
            outcome.different += not same
            if not same:
                split.add((tile, programs[problem, tile][1]))
        kernel.cells = {cell: problem for cell, problem in kernel.cells.items() if cell not in split}
        kernels[kernel.key] = kernel
        path.write_text(lock.text(kernels.values()))
    return outcome


def compile_all(
    kernel: Kernel, programs: Iterable[Program], stop: Callable[[], bool] = lambda: False
) -> Iterable[tuple[Program, Any]]:
    """Each program with the first DIGITS of the hash of its SASS, or processes.NoAnswer, in any order. Programs that
    the compiler does not tell apart are compiled once. Raises ValueError where another compiler is here."""
    cases = {
        program: Case("lock", kernel.technique, kernel.backend, operators.parse(program[0]), Tile.parse(program[1]))
        for program in programs
    }
    groups: dict[Any, list[Program]] = defaultdict(list)
    for program, case in cases.items():
        flags = str(sorted(constants(case).items())) if kernel.backend == "cuda" else program[1]
        groups[flags].append(program)
    variables = dict(environment_of(next(iter(cases.values()))) or {}) if cases else {}
    jobs = [
        (_compile, ([cases[program] for program in group], kernel.arch, kernel.front_end, kernel.ptxas))
        for group in groups.values()
    ]
    for (_, (group, *_)), answers in processes.answers(jobs, variables, seconds=SECONDS, stop=stop):
        for place, case in enumerate(group):
            answer = answers if isinstance(answers, processes.NoAnswer) else answers[place]
            yield (case.problem.slug, case.tile.slug), answer


def _compile(cases: list[Case], arch: str, front_end: str, ptxas: str) -> list[str]:
    """Runs in a process of its own environment."""
    if cases[0].backend == "cuda":
        return [_compile_cuda(cases[0], arch, front_end)] * len(cases)
    known: dict[str, str] = {}
    found = []
    for case in cases:
        name = _specialization(case, arch)
        if name not in known:
            made = compiling.inspect(case, arch, "shared" if _is_shared(case, ptxas) else "bundled")
            here = made["compiler"]["front_end"], made["compiler"]["ptxas"]
            if here != (front_end, ptxas):
                raise ValueError(
                    f"compiled by {front_end} with ptxas {ptxas}; here is {here[0]} with ptxas {here[1]}: install the "
                    "compilers of constraints.txt"
                )
            known[name] = made["code"]["sass_sha256"][:DIGITS]
        found.append(known[name])
    return found


def _compile_cuda(case: Case, arch: str, front_end: str) -> str:
    """nvcc to a cubin: neither host code nor linking."""
    from cuda_kernels import build

    assert case.technique is not None
    tools = build.toolchain()
    if f"nvcc {tools.nvcc}" != front_end:
        raise ValueError(f"compiled by {front_end}; here is nvcc {tools.nvcc}: install it (`twinkernels doctor`)")
    file = sources.kernel_file("cuda", techniques.at(case.technique, case.problem).path)
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        headers = f"-I{sources.ROOT / 'cuda_kernels'}"
        command = [tools.bin / "nvcc", *build.flags(arch, constants(case)), headers, "-cubin", "-o", cubin, file]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{case} does not compile: {done.stderr.strip()}")
        return machine_code.disassemble(cubin).sass_sha256[:DIGITS]


def _specialization(case: Case, arch: str) -> str:
    """What tells one program of a kernel at a tile from another; for a Triton that is not installed, the problem."""
    if case.backend in techniques.AS_CUBINS:
        return case.problem.slug
    made = specialized(case, arch)
    return repr((made.signature, made.constexprs, made.attrs, vars(made.options), made.grid))


def _is_shared(case: Case, ptxas: str) -> bool:
    from triton.backends.nvidia.compiler import get_ptxas_version

    return case.backend not in techniques.AS_CUBINS and f"V{ptxas}" not in str(get_ptxas_version(90))
