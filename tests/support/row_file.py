"""Rows with every field that they may have, and any rows as a file."""

import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.catalog.entries import Tile
from harness.operators.attention.problem import Problem
from harness.rows import results

Row = dict[str, Any]

DETAILS = {
    "gpu": {"name": "NVIDIA H200", "capability": [9, 0], "sm_count": 132, "uuid_sha256": "0123456789ab"},
    "peaks": {"tensor_tflops": 1070.5},
    "software": {"torch": "2.11.0", "cudnn": 91900, "triton": None},
    "toolchain": {"nvcc": "13.0.88"},
    "variables": {"CUDA_HOME": "cuda"},
    "git": {"sha": "0123456789abcdef", "dirty": False},
    "argv": ["run", "attention/ladder"],
    "warnings": [],
}
ENVIRONMENT: Row = {
    "schema": results.SCHEMA,
    "kind": "environment",
    "id": results.environment_id(DETAILS),
    "on": "gpu",
    "details": DETAILS,
    "time": "2026-01-01T00:00:00Z",
}
TIMING: Row = {
    "schema": results.SCHEMA,
    "kind": "timing",
    "on": "gpu",
    "operator": "attention",
    "experiment": "ladder",
    "technique": "scalar",
    "backend": "cuda",
    "problem": Problem.square(4, 16, 4096, 128).to_dict(),
    "tile": Tile(64, 64).to_dict(),
    "arch": "sm_90a",
    "mma": "fma",
    "source_sha256": "0" * 64,
    "compiler": {"front_end": "nvcc 13.0.88", "ptxas": "13.0.88", "flags": "-O3"},
    "status": "passed",
    "samples_ms": [1.0, 1.1],
    "mode": "burst",
    "group": "one",
    "order": ["sdpa_cudnn", "scalar cuda"],
    "clocks": {"sm_mhz": 1980, "power_w": 500.0, "throttle": []},
    "clock_ghz": [1.712, 1.708, 1.71],
    "code": {
        "registers": 64,
        "spill_bytes": 0,
        "smem_bytes": 0,
        "census": {"FFMA": 12},
        "sass_sha256": "1" * 64,
    },
    "call_us": {"launcher": 4.0},
    "details": {"again": {"of": "sdpa_cudnn", "difference": -0.001, "flagged": False}, "replicate": 1},
    "environment": ENVIRONMENT["id"],
    "time": "2026-01-01T00:00:01Z",
}
GATE: Row = {name: value for name, value in TIMING.items() if name not in ("samples_ms", "mode", "group", "order")} | {
    "kind": "gate",
    "numerics": {"normal": {"max_abs": 1e-3, "yardstick": 2e-3, "floor": 1e-4, "rel_l2": None}},
    "details": {"label": "", "launch_ms": 0.1},
}
MAIN_LOOP = {
    "instructions": 341,
    "products": 13,
    "serialized": False,
    "local_memory": 0,
    "all": {"exponentials": 42, "maxima": 44, "shuffles": 4, "conversions": 20},
    "under_products": {"exponentials": 4, "maxima": 44, "shuffles": 4, "conversions": 0},
    "in_lock": {"exponentials": 0, "maxima": 0, "shuffles": 0, "conversions": 0},
    "sequence": "bar.sync, 8 wgmma, 5 wgmma, bar.arrive, wait 1, (44 max, 4 shfl)",
}
SITE = {
    "file": "direct_rescale.cu",
    "line": 63,
    "column": 14,
    "mnemonic": "ldmatrix_x4",
    "path": "shared_to_registers",
    "executions": 8,
    "lanes": 256,
    "width": 16,
    "bytes": 4096,
    "wavefronts": 64,
    "bank_conflicts": 32,
    "sectors": 4,
    "least_sectors": 2,
    "bytes_in_flight": 0,
    "bytes_left": 0,
    "groups_in_flight": 1,
    "groups_left": 0,
    "example_addresses": [None, *range(0, 31 * 16, 16)],
}


def _of_kind(kind: str, *left_out: str, **fields: Any) -> Row:
    """A row about TIMING's kernel."""
    kept = {name: value for name, value in TIMING.items() if name not in (*left_out, "samples_ms", "call_us", "order")}
    return {**kept, "kind": kind, **fields}


_NOT_TIMED = ("mode", "group", "clocks", "clock_ghz")
_NO_CODE = (*_NOT_TIMED, "code", "compiler", "arch", "mma")
_SUBJECT = ("problem", "tile", "technique")
OF_KINDS: dict[str, Row] = {
    "timing": TIMING | {"details": {**TIMING["details"], "final": True, "launch_hidden": True}},
    "gate": GATE
    | {"code": {**GATE["code"], "main_loop": MAIN_LOOP, "setmaxnreg": [32, 160], "remarks": ["serialized"]}},
    "tune": _of_kind("timing", "code", purpose="tune", samples_ms=[1.0], details={"screened": "slower", "label": ""}),
    "cupti": _of_kind(
        "timing",
        *("code", "compiler", "clocks", "clock_ghz"),
        purpose="cupti",
        samples_ms=[1.0],
        details={
            "findings": [],
            "cupti_ms": 1.0,
            "events_ms": 1.01,
            "gap_ms": 0.003,
            "difference": -0.01,
            "replicate": 2,
        },
    ),
    "code": _of_kind(
        "code",
        *_NOT_TIMED,
        experiment="inspect",
        code={**TIMING["code"], "main_loop": MAIN_LOOP, "setmaxnreg": [24, 240], "remarks": ["serialized"]},
        details={},
    ),
    "counters": _of_kind(
        "counters",
        *("mode", "group", "clocks"),
        experiment="ncu",
        details={
            "metrics": {
                "lts__t_sector_hit_rate.pct": 91.5,
                "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": 0.5,
            },
            "totals": {"wavefronts": 48128, "bank_conflicts": 0},
        },
    ),
    "memory": _of_kind(
        "counters",
        *_NO_CODE,
        on="cpu",
        experiment="inspect",
        details={
            "sites": [SITE],
            "totals": {
                "bank_conflicts": 32,
                "wavefronts": 64,
                "sectors": 4,
                "least_sectors": 2,
                "bytes": {"shared_to_registers": 4096},
                "executions": {"ldmatrix_x4": 8},
            },
            "ncu": {"smsp__inst_executed_op_ldsm.sum": 8},
        },
    ),
    "sanitizer": _of_kind(
        "gate",
        *("mode", "group", "clocks", "clock_ghz", "code", "compiler"),
        experiment="sanitizer",
        tool="racecheck",
        status="wrong",
        reason="racecheck found 1",
        details={"findings": ["a race"], "found": 1, "seconds": 4.0},
    ),
    "roof": _of_kind(
        "timing",
        *("mode", "group", "clocks", *_SUBJECT),
        purpose="roof",
        experiment="hopper_roofs",
        roof="products_d128",
        per_clock={"flop": [4000.0, 4001.0]},
        tflops=[900.0],
        details={"steps": 946},
    ),
    "proof": _of_kind(
        "proof",
        *(*_NO_CODE, "problem", "tile"),
        on="cpu",
        experiment="expressibility",
        backend="triton@3.6.0",
        proof="one",
        details={"verdict": "proven", "lines": ["wgmma"], "control_lines": []},
    ),
}
"""A row of each kind, with what pages read in it."""


def write(path: Path, rows: Iterable[Row]) -> Path:
    """The rows as a file, compressed where its name ends so. Their kinds may have short names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(results.spelled_out(row)) + "\n" for row in rows).encode()
    path.write_bytes(lzma.compress(text, preset=0) if path.suffix == ".xz" else text)
    return path


def write_recorded(root: Path, rows: Iterable[Row], gpu: str = "h200", experiment: str = "ladder") -> Path:
    """The rows as a recorded run."""
    return write(root / gpu / "attention" / experiment / f"run{results.RECORDED}", rows)
