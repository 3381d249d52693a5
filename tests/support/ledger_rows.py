"""Invented rows of the experiment behind the ledger: every kernel as fast as its techniques say. No number here was
ever measured."""

import math
import random
from collections.abc import Mapping
from itertools import product
from typing import Any

from harness.catalog import experiments
from harness.catalog.cases import of_experiment
from harness.catalog.entries import Tile
from harness.catalog.techniques import of_qualified, unsupported
from harness.catalog.tiles import best_tile
from harness.operators.attention import gap as ledger
from harness.operators.attention.ablations import ABLATIONS
from harness.operators.attention.problem import Problem
from tests.support import synthetic_rows as synthetic

Row = dict[str, Any]

EXPERIMENT = "what_triton_misses"
PROBLEM = Problem.square(4, 16, 4096, 128)
CAUSAL = Problem.square(4, 16, 4096, 128, causal=True)
WORTH = {
    "assembler": 0.01,
    "compiler": 0.03,
    "waits_at_once": 0.01,
    "one_block": -0.06,
    "first_rung": -0.01,
    "buffer_barriers": 0.05,
    "producer_consumer": 0.04,
    "overlap": 0.08,
    "turns": 0.02,
    "pinned_maxima": 0.05,
    "persistent": 0.04,
    "own_diagonal": 0.03,
    "idle_warpgroups": 0.004,
    "lazy_rescale": 0.02,
    "early_rescale": 0.008,
    "integer_max": 0.025,
    "tma_store": 0.02,
    "head_by_head": 0.01,
    "moved_descriptors": 0.004,
    "gluon_schedule": 0.03,
    "tlx_schedule": 0.05,
    "own_tile": 0.03,
    "third_warpgroup": 0.05,
    "fewer_keys": -0.02,
    "register_split": 0.06,
    "integers_alone": 0.001,
    "integers_in_core": 0.002,
    "integers_in_triton": 0.05,
    "order_in_triton": 0.009,
    "order_alone": 0.006,
    "lazily_at_square": 0.003,
    "integers_at_square": 0.018,
}
"""Logarithms of what each term multiplies the TFLOPS by, maxima of integers and the order of tiles in the CUDA kernel
limited to what core Triton can express and in core Triton's own, and what two techniques are worth at the tile
SQUARE."""
WHOLE = {term.instead_of for term in ledger.TERMS} - {""}
"""Terms that others replace where these were timed."""
SUM = {term.name for term in ledger.TERMS if term.is_added} - WHOLE
STEPS = {term.step[0]: (term.name, term.step[1]) for term in ledger.TERMS if term.step and term.name in SUM}
LACKING, LAZILY, ON_FLOATS = (
    ledger.at(name, ledger.SQUARE) for name in (ledger.LACKING, ledger.LAZILY, "without_integer_max")
)
SLOWER = {
    ledger.at(ledger.FLAGSHIP, ledger.SQUARE): ("own_tile", ledger.FLAGSHIP),
    ledger.at(ledger.FLAGSHIP, ledger.NARROW): ("third_warpgroup", ledger.FLAGSHIP),
    ledger.at("without_register_split", ledger.SQUARE): ("register_split", ledger.at(ledger.FLAGSHIP, ledger.SQUARE)),
    LAZILY: ("lazily_at_square", ledger.at(ledger.FLAGSHIP, ledger.SQUARE)),
    ON_FLOATS: ("integers_at_square", ledger.at(ledger.FLAGSHIP, ledger.SQUARE)),
    LACKING: ("integers_at_square", LAZILY),
}
"""Kernel -> the term that it lacks, and the kernel that has it."""
SAME = {
    (128, False): LAZILY,
    (128, True): LACKING,
    (64, False): ledger.LACKING,
    (64, True): ledger.at(ledger.FLAGSHIP, ledger.SQUARE),
}
"""head_dim and whether causal -> the kernel of CUDA with the schedule, the techniques and the shape of tile that
Gluon's has there; TLX's is like Gluon's but for head_dim 64 with a mask, where its tile is the flagship's."""
WITH_INTEGERS = {
    "registers": 168,
    "spill_bytes": 0,
    "smem_bytes": 0,
    "main_loop": {
        "sequence": "16 wgmma",
        "all": {"maxima": 38, "exponentials": 66},
        "under_products": {"exponentials": 0},
    },
}
"""The machine code of a kernel of Gluon or TLX with maxima of integers."""
TRITON_TFLOPS = 500.0
LIMITED = (ledger.VOCABULARY, ledger.ORDERED, ledger.WITH_INTEGERS)


def hashes() -> dict[tuple[str, str], str]:
    names = {*ledger.kernels(), ledger.FLAGSHIP, *LIMITED, "without_register_split"}
    return {(name, backend): synthetic.sha(name, backend) for name in names for backend in ("cuda", *ledger.WAYS)}


def same(series: str, problem: Problem) -> str:
    """The kernel of SAME for Gluon or TLX."""
    return SAME[problem.head_dim, problem.causal and not (series == ledger.TLX and problem.head_dim == 64)]


def has_integers(series: str, problem: Problem) -> bool:
    """Whether Gluon's or TLX's flagship has maxima of integers."""
    return same(series, problem) not in (LACKING, ledger.LACKING)


def speed(name: str, has: Mapping[str, float], beyond: Mapping[str, float]) -> float:
    """Logarithm of a kernel's TFLOPS. `beyond`: what an ablation of two loses more than each."""
    if name == ledger.TRITON:
        return math.log(TRITON_TFLOPS)
    if name == ledger.PLAIN:
        return speed(ledger.TRITON, has, beyond) - has["integers_in_triton"]
    if name == ledger.IN_SECTIONS:
        return speed(ledger.PLAIN, has, beyond) - has["order_in_triton"]
    if name == ledger.ON_INTEGERS:
        return speed(ledger.IN_SECTIONS, has, beyond) + has["integers_in_core"]
    in_cuda = has["integers_alone"] if has["integers_in_triton"] else 0.0  # core Triton's best has integers too
    if name == ledger.ORDERED:
        return speed(ledger.CONFINED, has, beyond) - in_cuda
    if name == ledger.WITH_INTEGERS:
        return speed(ledger.ORDERED, has, beyond) + has["integers_alone"]
    if name == ledger.VOCABULARY:
        return speed(ledger.ORDERED, has, beyond) - has["order_alone"]
    if name in SLOWER:
        term, faster = SLOWER[name]
        return speed(faster, has, beyond) - has[term]
    if name == ledger.FLAGSHIP:
        worth = sum(worth for term, worth in has.items() if term in SUM)
        return speed(ledger.TRITON, has, beyond) + worth - in_cuda - has["order_alone"]
    if name == ledger.AWAITED:
        return speed(ledger.VOCABULARY, has, beyond) + has["waits_at_once"]
    if name in STEPS:
        term, start = STEPS[name]
        return speed(start, has, beyond) + has[term]
    for ablation in ABLATIONS:
        if ablation.name == name and ablation.lacks:
            lost = sum(has[term] for term in ablation.lacks) + beyond.get(name, 0.0)
            return speed(ledger.FLAGSHIP, has, beyond) - lost
    raise KeyError(name)


def rows(
    problems: tuple[Problem, ...] = (PROBLEM,),
    boards: int = 3,
    processes: int = 2,
    worth: Mapping[str, float] | None = None,
    beyond: Mapping[str, float] | None = None,
    without: tuple[str, ...] = (),
    noise: float = 0.0005,
) -> list[Row]:
    """Of every process one group a problem, and one of Triton by nvcc's ptxas. `without`: kernels left out."""
    has, chance, found = {**WORTH, **(worth or {})}, random.Random(0), list[Row]()
    cases = of_experiment(experiments.load(EXPERIMENT), "h200")
    for board, process in product(range(boards), range(processes)):
        origin = f"board{board}-{process}"
        found.append(synthetic.environment(origin, f"board{board}"))
        for problem in problems:
            here = [case for case in cases if case.problem == problem and case.technique not in without]
            declined = {term.name for term in ledger.TERMS if term.leave_out and _declined(term.leave_out, problem)}
            applying = {name: 0.0 if name in declined else worth for name, worth in has.items()}
            if problem.head_dim != 64:
                applying["integers_in_triton"] = 0.0
            if problem.head_dim != 64 or not problem.causal:
                applying["waits_at_once"] = 0.0
            best = best_tile(ledger.FLAGSHIP, "cuda", problem, "h200")
            for case in here:
                name = case.backend if case.backend in ledger.WAYS else case.technique
                if name and case.tile is None:
                    continue
                if name == ledger.TRITON:
                    name = ledger.THEIRS.get(str(case.technique), name)
                if name and case.tile and case.backend == "cuda" and case.tile != best and name not in LIMITED:
                    name = ledger.at(name, case.tile)
                if (
                    name
                    and case.tile
                    and unsupported(of_qualified(case.technique or ""), case.backend, problem, case.tile)
                ):
                    continue
                if name in (ledger.GLUON, ledger.TLX):
                    fast = speed(same(name, problem), applying, beyond or {})
                    tflops = math.exp(fast - has[f"{name.partition('@')[0]}_schedule"])
                else:
                    tflops = math.exp(speed(name, applying, beyond or {})) if name else 480.0
                small = [series for series in ledger.WAYS if not same(series, problem).endswith(ledger.SQUARE.slug)]
                if name in (ledger.TRITON, *small) and case.tile == ledger.SQUARE:
                    tflops *= 0.9
                ms = problem.flops / tflops / 1e9 * math.exp(chance.gauss(0, noise))
                row = _row(problem, case.technique, case.backend, case.tile, origin, ms)
                integers = name in (ledger.GLUON, ledger.TLX) and has_integers(name, problem)
                found.append({**row, "code": WITH_INTEGERS} if integers else row)
                if case.backend in ("triton", "sdpa_cudnn"):
                    faster = math.exp(has["assembler"]) if case.technique else 1.0
                    shared = _row(problem, case.technique, case.backend, case.tile, origin, ms / faster)
                    group = f"{origin}-{problem.slug}-shared-01"
                    found.append(
                        {**shared, "assembler": "shared", "group": group, **_compiled(case.technique, "13.0.88")}
                    )
    return found


def _compiled(name: str | None, ptxas: str) -> Row:
    return {"compiler": {"front_end": "a compiler", "ptxas": ptxas}} if name else {}


def _declined(name: str, problem: Problem) -> bool:
    return unsupported(of_qualified(name), "cuda", problem, ledger.SQUARE) is not None


def _row(problem: Problem, name: str | None, backend: str, tile: Tile | None, origin: str, ms: float) -> Row:
    rest = {"experiment": EXPERIMENT, "mode": "burst", "environment": origin, "group": f"{origin}-{problem.slug}-01"}
    rest["samples_ms"] = synthetic.samples(f"{problem.slug} {name} {backend} {origin}", ms, 20)
    return synthetic.make("timing", name, backend, problem, tile, **rest, **_compiled(name, "12.8.93"))
