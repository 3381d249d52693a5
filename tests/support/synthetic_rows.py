"""Invented rows for tests of reports, scorecard and compare. Deterministic; no number here was ever measured."""

import hashlib
import pickle
import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from harness.rows.results import SCHEMA

Row = dict[str, Any]

TIME = "2030-01-02T03:04:05Z"
PROBLEMS = tuple(
    Problem.square(4, 16, 4096, head_dim, causal=causal) for head_dim, causal in product((128, 64), (False, True))
)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)

# TFLOPS at d=128, full, N=4096
SPEED = {
    "cuda": {
        "scalar": 14,
        "mma_ldmatrix": 92,
        "register_softmax": 158,
        "direct_rescale": 166,
        "xor_swizzle": 268,
        "large_tile": 281,
        "cp_async_pipeline": 322,
    },
    "triton": {"scalar": 11, "mma_ldmatrix": 301, "direct_rescale": 304, "large_tile": 318, "cp_async_pipeline": 336},
    "triton_native": {"mma_ldmatrix": 430, "direct_rescale": 434, "large_tile": 441, "cp_async_pipeline": 463},
}
PEERS = {"sdpa_cudnn": 606, "sdpa_flash": 343, "flex": 473}

PROGRAMS = {
    (name, backend): target
    for name, target in (("register_softmax", "mma_ldmatrix"), ("xor_swizzle", "direct_rescale"))
    for backend in ("triton", "triton_native")
}
"""Twins that re-export another's program at its tile: the runner repeats that one's rows under their name."""

CHOSEN = {
    (name, "triton", cell): tile
    for cell in ("d128-full", "d128-causal", "d64-full", "d64-causal")
    for name, tile in (("cp_async_pipeline", Tile(128, 64, 3, 8)), ("large_tile", Tile(64, 128)))
}
"""The committed table: another tile for one rung, the registry's for its parent."""

EVIL = "<script>alert('reason')</script>"
HOLES = {
    ("direct_rescale", "cuda", "d64-bf16-causal"): ("wrong", f"max_abs 0.3 over 2x yardstick at [0, 1, 64, 3] {EVIL}"),
    ("large_tile", "cuda", "d128-bf16-causal"): ("crashed", "worker died with signal 11 (segmentation fault)"),
    ("cp_async_pipeline", "triton_native", "d64-bf16-causal"): ("timeout", "compiling took longer than 120 s"),
    ("large_tile", "triton", "d64-bf16-full"): ("not_converged", "median still moving after 15 s"),
    ("scalar", "triton_native", ""): ("unsupported", "scalar arithmetic has no wgmma form"),
}
DISTRIBUTIONS = ("normal", "shifted", "outliers", "large_logits", "constant_rows")

ENVIRONMENT: Row = {
    "schema": SCHEMA,
    "kind": "environment",
    "id": "a1b2c3d4e5f6",
    "time": TIME,
    "details": {
        "gpu": {
            "name": "NVIDIA H200",
            "capability": [9, 0],
            "sm_count": 132,
            "driver": "580.159.04",
            "max_sm_mhz": 1980,
            "power_limit_w": 700.0,
        },
        "peaks": {"tensor_tflops": 1070.5, "fp32_tflops": 66.9, "bytes_per_s": 4.8e12},
        "software": {"python": "3.12.3", "torch": "2.11.0+cu130", "triton": "3.6.0", "cudnn": 91900},
        "toolchain": {"nvcc": "13.0.88", "ptxas": "13.0.88", "triton_ptxas": "12.8.93"},
        "variables": {},
        "git": {"sha": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
        "warnings": [],
    },
}


def sha(technique: str, backend: str, version: str = "current") -> str:
    return hashlib.sha256(f"{technique} {backend} {version}".encode()).hexdigest()


def hashes() -> dict[tuple[str, str], str]:
    """What the checkout of these tests would hash to."""
    return {(t.name, b): sha(t.name, b) for t in techniques.TECHNIQUES for b in techniques.TWINS}


def samples(name: str, milliseconds: float, count: int = 40) -> list[float]:
    """A right-skewed cloud around `milliseconds`, the same for the same name."""
    chance = random.Random(name)
    return [round(milliseconds * (1 + abs(chance.gauss(0, 0.004))), 6) for _ in range(count)]


def environment(name: str, board: str, **gpu: Any) -> Row:
    """Of a process `name` on a GPU of its own, or of fields that differ."""
    details = ENVIRONMENT["details"]
    return {**ENVIRONMENT, "id": name, "details": {**details, "gpu": {**details["gpu"], "uuid_sha256": board, **gpu}}}


def make(kind: str, technique: str | None, backend: str, problem: Problem, tile: Tile | None, **rest: Any) -> Row:
    """One that passed, of the ladder on ENVIRONMENT's GPU unless `rest` says otherwise; no technique: a peer."""
    row = {
        "schema": SCHEMA,
        "kind": kind,
        "on": "gpu",
        "operator": "attention",
        "experiment": "ladder",
        "backend": backend,
        "problem": problem.to_dict(),
        "status": "passed",
        "environment": ENVIRONMENT["id"],
        "time": TIME,
        **rest,
    }
    if technique:
        row |= {"technique": technique, "source_sha256": sha(technique, backend), "arch": "sm_90a"}
        row["mma"] = "wgmma" if backend == "triton_native" else techniques.of_qualified(technique).mma
    if tile:
        row["tile"] = tile.to_dict()
    return row


def rows() -> list[Row]:
    """A whole recorded run: environment, gate, timing (burst and sustained), code, tune, holes and old versions."""
    found: list[Row] = pickle.loads(_pickled())  # which a test may change
    return found


@cache
def _pickled() -> bytes:
    measured = [*_ladder(), *_lengths(), *_gates(), *_codes()]
    return pickle.dumps([ENVIRONMENT, *measured, *_again(measured), *_tuned(), *_earlier()])


def _factor(problem: Problem) -> float:
    length = problem.seq_q / (problem.seq_q + (400 if problem.causal else 120))
    return length * (0.86 if problem.head_dim == 64 else 1.0) * (0.85 if problem.causal else 1.0) * 1.03


def _variants(problem: Problem) -> Iterator[tuple[str | None, str, Tile | None, float]]:
    for backend, speeds in SPEED.items():
        for name, speed in speeds.items():
            yield name, backend, techniques.reference_tile(techniques.of_qualified(name), problem.head_dim), speed
    yield "scalar", "triton_native", techniques.reference_tile(techniques.get("attention/scalar"), problem.head_dim), 1
    yield (
        "cp_async_pipeline",
        "triton",
        CHOSEN["cp_async_pipeline", "triton", "d128-full"],
        SPEED["triton"]["cp_async_pipeline"] * 1.04,
    )
    for peer, speed in PEERS.items():
        yield None, peer, None, speed


def _ladder() -> Iterator[Row]:
    for problem, mode in product(PROBLEMS, ("burst", "sustained")):
        variants = sorted(_variants(problem), key=lambda variant: -variant[3])
        for name, backend, tile, speed in variants:
            group = f"{problem.slug}-{mode}-{'slow' if speed < 100 else 'fast'}"
            if (name, backend, problem) == ("xor_swizzle", "cuda", PROBLEMS[2]):
                continue  # see _earlier
            slower = 1.0 if mode == "burst" else 1.12
            ms = problem.flops / speed / _factor(problem) / 1e9 * slower
            row = make("timing", name, backend, problem, tile, mode=mode, group=group, order=[backend])
            row["clocks"] = {"sm_mhz": 1980.0 if mode == "burst" else 1590.0, "power_w": 520.0, "throttle": []}
            if mode == "sustained":
                row["clocks"]["throttle"] = ["SwPowerCap"]
            hole = _hole(name, backend, problem)
            if hole:
                row |= {"status": hole[0], "reason": hole[1]}
            else:
                row["samples_ms"] = samples(f"{problem.slug} {name} {backend} {mode} {tile}", ms)
                if name:
                    row["call_us"] = {"launcher": 4.2 if backend == "cuda" else 23.5, "graph": 2.1}
                    row["compile_s"] = 1.6 if backend == "cuda" else 2.9
            yield row
            row["details"] = {"again": {"of": "sdpa_cudnn", "difference": 0.0011, "flagged": False}}
            yield row
            if backend == "sdpa_cudnn":  # the anchor of the other group
                slow = samples(f"slow {problem.slug} {mode}", ms)
                yield {**row, "group": f"{problem.slug}-{mode}-slow", "samples_ms": slow}


def _again(measured: list[Row]) -> Iterator[Row]:
    for row in measured:
        for (name, backend), target in PROGRAMS.items():
            if (row.get("technique"), row["backend"]) == (target, backend) and row["kind"] != "code":
                details = {**row.get("details", {}), "same_program": target}
                yield {**row, "technique": name, "source_sha256": sha(name, backend), "details": details}


def _hole(name: str | None, backend: str, problem: Problem) -> tuple[str, str] | None:
    for (technique, where, cell), hole in HOLES.items():
        if (technique, where) == (name, backend) and cell in problem.slug:
            return hole
    return None


def _lengths() -> Iterator[Row]:
    for seq, head_dim, causal in product(LENGTHS, (128, 64), (False, True)):
        problem = Problem.square(16384 // seq, 2048 // head_dim, seq, head_dim, causal=causal)
        for backend, speeds in SPEED.items():
            yield _length(problem, "cp_async_pipeline", backend, speeds["cp_async_pipeline"])
        for peer, speed in PEERS.items():
            yield _length(problem, None, peer, speed)


def _length(problem: Problem, name: str | None, backend: str, speed: float) -> Row:
    tile = techniques.reference_tile(techniques.of_qualified(name), problem.head_dim) if name else None
    row = make("timing", name, backend, problem, tile, mode="burst", group=problem.slug, experiment="sequence_length")
    ms = problem.flops / speed / _factor(problem) / 1e9
    return row | {"samples_ms": samples(f"{problem.slug} {name} {backend}", ms), "clocks": {"sm_mhz": 1980.0}}


def _gates() -> Iterator[Row]:
    for technique, backend, problem in product(techniques.TECHNIQUES, techniques.TWINS, PROBLEMS):
        if (technique.name, backend) in PROGRAMS or _hole(technique.name, backend, problem):
            continue
        tile = techniques.reference_tile(technique, problem.head_dim)
        chance = random.Random(f"{technique.name} {backend} {problem.slug}")
        yield make("gate", technique.name, backend, problem, tile) | {
            "numerics": {
                name: {
                    "max_abs": 0.004 * chance.uniform(0.9, 1.3),
                    "rel_l2": 0.002 * chance.uniform(0.9, 1.2),
                    "lse_max_abs": 1e-6 * chance.uniform(0.5, 3),
                    "lse_tolerance": 3e-5,
                    "yardstick": 0.004,
                    "floor": 0.001,
                    "yardstick_rel_l2": 0.002,
                    "pytorch_max_abs": 0.006,
                    "pytorch_rel_l2": 0.003,
                    "max_error_used": chance.uniform(0.4, 0.7),
                    "rel_l2_used": chance.uniform(0.5, 0.8),
                }
                for name in DISTRIBUTIONS
            }
        }


def _codes() -> Iterator[Row]:
    for technique, backend in product(techniques.TECHNIQUES, techniques.TWINS):
        for arch, head_dim in product(techniques.ladder_of(technique).archs, (128, 64)):
            problem = Problem.square(4, 16, 4096, head_dim)
            tile = techniques.reference_tile(technique, head_dim)
            chance = random.Random(f"{technique.name} {backend} {arch} {head_dim}")
            census = {"HMMA": 256, "LDSM": 96, "LDSM.T": 48, "MUFU.EX2": 36, "FFMA": 420, "BAR": 3, "STG.128": 16}
            if technique.mma == "fma":
                census = {"FFMA": 8192, "MUFU.EX2": 64, "LDS.128": 512, "BAR": 4}
            if backend == "triton_native" and arch == "sm_90a":
                census = {"HGMMA": 16, "MUFU.EX2": 36, "FFMA": 380, "BAR": 6, "LDGSTS": 32}
            row = make("code", technique.name, backend, problem, tile, on="cpu", compile_s=1.2)
            yield row | {
                "arch": arch,
                "compiler": {"front_end": "nvcc 13.0.88" if backend == "cuda" else "triton 3.6.0", "ptxas": "13.0.88"},
                "code": {
                    "registers": chance.randrange(96, 255),
                    "spill_bytes": chance.choice((0, 0, 0, 16)),
                    "smem_bytes": 49152,
                    "census": census,
                    "sass_sha256": sha(technique.name, backend, arch),
                },
            }


def _tuned() -> Iterator[Row]:
    problem = PROBLEMS[0]
    for block_n, stages in product((32, 64, 128), (2, 3)):
        tile = Tile(128, block_n, stages, 8)
        row = make("tune", "cp_async_pipeline", "triton", problem, tile, experiment="tune", mode="burst")
        yield row | {"samples_ms": samples(f"tune {tile.slug}", 2.0)}


def _earlier() -> Iterator[Row]:
    """xor_swizzle in CUDA at d=64, full, was measured before its file changed, and was not measured since."""
    problem, name, backend = PROBLEMS[2], "xor_swizzle", "cuda"
    tile = techniques.reference_tile(techniques.of_qualified(name), problem.head_dim)
    for mode in ("burst", "sustained"):
        row = make("timing", name, backend, problem, tile, mode=mode, group="before")
        row |= {"source_sha256": sha(name, backend, "earlier"), "time": "2029-12-01T00:00:00Z"}
        yield row | {"samples_ms": samples(f"earlier {mode}", problem.flops / 150 / 1e9)}
