"""Compiles the programs of claims, in processes that have the Triton in question; keeps their texts.

Nothing is launched: no GPU is needed. What was compiled is kept in build/expressibility by the hash of the program.
"""

import hashlib
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from harness import build, operators
from harness.build import Case, cuda, tritons
from harness.catalog import sources, techniques
from harness.catalog.entries import Tile
from harness.expressibility import child, verdicts
from harness.expressibility.claims import CudaProbe, Probe, Program, Twin
from harness.machine import processes
from harness.machine.environment import scrub

KEPT = sources.ROOT / "build" / "expressibility"
SECONDS = 240
"""Time limit for all that shares a process."""
TOGETHER = 8
"""Kernels of the ladders that share a process at most."""
LONGEST_WORDS = 20_000
"""Characters kept of what a compiler says: an error of MLIR prints the whole module."""

Texts = dict[str, str]
Job = tuple[Program, str]
"""A program and the version of Triton that compiles it; "" for CUDA."""


def at(program: Program, version: str) -> Job:
    """The program with the version that compiles it when `version` is the one under examination."""
    if isinstance(program, CudaProbe) or (isinstance(program, Twin) and program.backend == "cuda"):
        return program, ""
    return program, program.version or version or tritons.installed() or ""


def compiled(jobs: Iterable[Job], keep: Path = KEPT) -> Iterator[tuple[Job, Texts]]:
    """Each program with its texts (of claims.TEXTS), in order of completion. One that does not compile has `words` and
    `source` alone. Raises tritons.MissingTriton before anything is compiled."""
    batches: dict[tuple[object, str, str], list[Job]] = defaultdict(list)
    for program, version in dict.fromkeys(jobs):
        kept = keep / f"{_key(program, version)}.json"
        if kept.is_file():
            yield (program, version), json.loads(kept.read_text())
            continue
        dialect = getattr(program, "dialect", None) or "triton"
        if version:
            tritons.variables(version, dialect)
        batches[_company(program, version), version, dialect].append((program, version))
    parts = (part for batch in batches.values() for part in _parts(batch))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done in as_completed([pool.submit(_compile, part) for part in parts]):
            for (program, version), texts in done.result():
                sources.put(keep / f"{_key(program, version)}.json", json.dumps(texts).encode())
                yield (program, version), texts


def _company(program: Program, version: str) -> object:
    """What programs that may share a process have in common: forms of one probe their file, kernels of the ladders,
    each of which would import torch for itself, the variables that they need; tiles of a hatch, which changes the
    compiler that it is in, the hatch. Everything else is alone."""
    if isinstance(program, Probe):
        return program.file
    if isinstance(program, Twin) and version:
        hatch = program.technique if program.backend == techniques.HATCH else None
        return hatch, *sorted(_variables(program, version).items())
    return program.label


def _parts(batch: list[Job]) -> list[list[Job]]:
    """A batch of kernels of the ladders by TOGETHER, the forms of a probe whole."""
    at_once = len(batch) if isinstance(batch[0][0], Probe) else TOGETHER
    return [batch[begin : begin + at_once] for begin in range(0, len(batch), at_once)]


def _key(program: Program, version: str) -> str:
    parts = (verdicts.program_sha256(program), repr(program), version, sources.code(Path(child.__file__)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _compile(batch: list[Job]) -> list[tuple[Job, Texts]]:
    program, version = batch[0]
    if not version:
        return [((program, version), {"source": _source(program), **_cuda(program)})]
    forms = {each: each.form if isinstance(each, Probe) else each.label for each, _ in batch}
    texts = run(_request(forms), _variables(program, version), list(forms.values()))
    return [((each, version), {"source": _source(each), **texts[form]}) for each, form in forms.items()]


def _variables(program: Program, version: str) -> dict[str, str]:
    variables = tritons.variables(version, getattr(program, "dialect", None) or "triton")
    # As a kernel of the ladders is compiled for timing: mma.sync for the series triton.
    if isinstance(program, Twin):
        variables |= {"TRITON_DEFAULT_FP_FUSION": "1"} | (build.environment_of(case_of(program)) or {})
    return variables


def case_of(program: Twin) -> Case:
    problem = program.problem
    technique = techniques.at(program.technique, problem)
    tile = Tile.parse(program.tile) if program.tile else techniques.reference_tile(technique, problem.tile_key)
    return Case("expressibility", technique.name, program.backend, problem, tile)


def _source(program: Program) -> str:
    return verdicts.path_of(program).read_text()


def _request(forms: dict[Program, str]) -> dict[str, object]:
    """What child.py is asked for: forms of one probe, or kernels of the ladders by their labels."""
    first = next(iter(forms))
    if isinstance(first, Probe):
        return {"file": str(sources.ROOT / first.file)}
    twins = {form: _described(program) for program, form in forms.items() if isinstance(program, Twin)}
    return {"root": str(sources.ROOT), "twins": twins}


def _described(program: Twin) -> dict[str, object]:
    case = case_of(program)
    assert case.tile is not None
    root, path = operators.root(case.problem.operator), verdicts.path_of(program)
    module = ".".join(path.relative_to(root).with_suffix("").parts)
    return {
        "root": str(root),
        "module": module,
        "problem": case.problem.to_dict(),
        "tile": case.tile.to_dict(),
        "arch": program.arch,
    }


def of_file(request: dict[str, object], version: str) -> dict[str, Texts]:
    """Name -> texts of the programs of a file of the user's (what child.py says of "run"), compiled by that Triton, and
    child.RUN -> how its `run()` ended. Raises tritons.MissingTriton."""
    return run(request, tritons.variables(version), [child.RUN])


def run(request: dict[str, object], environment: dict[str, str], forms: list[str]) -> dict[str, Texts]:
    """Form -> its texts. If a form ends its process, the forms after it run again without it."""
    found: dict[str, Texts] = {}
    with tempfile.TemporaryDirectory() as place:
        asked, answer, log = (Path(place) / name for name in ("request.json", "answer.jsonl", "stderr"))
        while todo := [form for form in forms if form not in found]:
            asked.write_text(json.dumps({**request, "forms": todo}))
            answer.write_text("")
            command = [sys.executable, child.__file__, str(asked), str(answer)]
            code = processes.run(command, Path(place), environment, log, SECONDS)
            said = _by_form(log.read_text(errors="replace"))
            for line in answer.read_text().splitlines():
                texts = json.loads(line)
                form = texts.pop("form")
                found[form] = {**texts, "words": _words(texts.get("words", ""), said.get(form, ""))}
            if code != 0:
                ended = f"not done within {SECONDS} s" if code is None else processes.ending(code)
                died = next((form for form in todo if form not in found), None)
                if died is not None:
                    found[died] = {"words": _words(said.get(died, said.get(None, "")), f"the process ended: {ended}")}
    return found


def _words(*parts: str) -> str:
    """What a compiler said, without this machine's folders: the beginning, and later lines that name an error."""
    text = scrub("\n".join(part.strip() for part in parts if part.strip()))
    rest = [line[:400] for line in text[LONGEST_WORDS:].splitlines() if re.search(r"error:|Assertion|Error:", line)]
    return "\n".join([text[:LONGEST_WORDS], *rest])


def _by_form(stderr: str) -> dict[str | None, str]:
    """Form -> what stderr has of it; None -> what stderr has before the first form."""
    head, *rest = re.split(rf"^{child.BEGIN}", stderr, flags=re.MULTILINE)
    parts = {part.partition("\n")[0]: part.partition("\n")[2] for part in rest}
    return {None: head, **parts}


def _cuda(program: Program) -> Texts:
    try:
        if isinstance(program, Twin):
            case = case_of(program)
            ptx, sass, usage = cuda.assembly(cuda.cuda_file(case), cuda.constants(case), program.arch)
        else:
            assert isinstance(program, CudaProbe)
            ptx, sass, usage = cuda.assembly(f"probes/{program.name}", {}, program.arch)
    except build.CompileError as error:
        return {"words": _words(str(error))}
    registers, stack, shared = re.findall(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage)[0]
    facts = f"shared {shared}\nregisters {registers}\nstack {stack}"
    return {"ptx": ptx, "sass": sass, "facts": facts, "words": ""}
