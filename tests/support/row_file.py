"""Rows with every field that they may have, and any rows as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.catalog.problem import Problem, Tile
from harness.rows import results

Row = dict[str, Any]

DETAILS = {
    "gpu": {"name": "NVIDIA H200", "capability": [9, 0], "uuid_sha256": "0123456789ab"},
    "peaks": {"tensor_tflops": 1070.5},
    "software": {"torch": "2.11.0", "cudnn": 91900, "triton": None},
    "toolchain": {"nvcc": "13.0.88"},
    "variables": {"CUDA_HOME": "cuda"},
    "git": {"sha": "0123456789abcdef", "dirty": False},
    "argv": ["run", "ladder"],
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
    "numerics": {"normal": {"max_abs": 1e-3, "rel_l2": None}},
    "details": {"label": "", "launch_ms": 0.1},
}
FLEET: Row = {
    "schema": results.SCHEMA,
    "kind": "fleet",
    "on": "gpu",
    "experiment": "fleet",
    "command": "run ladder",
    "gpus": 2,
    "status": "passed",
    "details": {"problems": 16, "seconds": 126.4, "built": 0, "lost": 0},
    "environment": ENVIRONMENT["id"],
    "time": "2026-01-01T00:00:01Z",
}


def write(path: Path, rows: Iterable[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
