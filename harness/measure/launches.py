"""Times the programs of a user's file that several Tritons made: their cubins in turn, with the arguments of its run().

    python -m harness.measure.launches REQUEST ANSWER

This is a process of its own, with a GPU. REQUEST is JSON: {"run": the file, "programs": {name: {version: {"launch",
"cubin"}}}}, as harness.expressibility.child says them. ANSWER gets {name: {version: milliseconds, or why there are
none}}.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from harness.build import cubins, cuda_driver, launches
from harness.build.launches import Program
from harness.catalog import sources
from harness.measure import timing

SECONDS = 600
"""Time limit for all programs of a file."""
Cubins = Mapping[str, Mapping[str, str]]
"""Version -> what it made of a program."""


def run(path: Path, programs: Mapping[str, Cubins]) -> dict[str, Any]:
    """What the process answers. Raises RuntimeError with its words where it fails."""
    with tempfile.TemporaryDirectory() as place:
        request, answer = Path(place, "request.json"), Path(place, "answer.json")
        request.write_text(json.dumps({"run": str(path), "programs": programs}))
        command = [sys.executable, "-m", "harness.measure.launches", str(request), str(answer)]
        done = subprocess.run(command, cwd=sources.ROOT, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-400:])
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def main(request: str, answer: str) -> None:
    asked = json.loads(Path(request).read_text())
    found, ended = launches.take(asked["run"])
    by_name = {program.name: program for program in found}
    said = {
        name: timed(by_name[name], made) if name in by_name else dict.fromkeys(made, f"not launched here: {ended}")
        for name, made in asked["programs"].items()
    }
    Path(answer).write_text(json.dumps(said))


def timed(program: Program, made: Cubins) -> dict[str, Any]:
    """Median milliseconds by version, with a cold L2 cache, in one group; a word where a version has no launch."""
    calls, said = {}, {}
    for version, texts in made.items():
        about = json.loads(texts["launch"])
        if "declined" in about:
            said[version] = about["declined"]
            continue
        function = cuda_driver.load(bytes.fromhex(texts["cubin"]), about["kernel"], about["shared"])
        calls[version] = _call(function, about, program)
    timings = timing.time_group(calls, stopwatch=timing.CudaStopwatch()) if calls else {}
    return said | {version: statistics.median(one.samples_ms) for version, one in timings.items()}


def _call(function: Any, about: Mapping[str, Any], program: Program) -> Any:
    values = dict(program.arguments)
    for name, tensor_map in about["maps"].items():
        values |= cubins.described(name, values[name], tensor_map)
    size = math.prod(program.grid) * about["scratch_bytes"]
    scratch = torch.zeros(size, dtype=torch.uint8, device="cuda") if size else None
    values |= {"global_scratch": 0 if scratch is None else scratch, "profile_scratch": 0}
    launch = cubins.launch_of(function, about, values, program.grid)

    def call(keep_alive: tuple[Any, ...] = (scratch, values)) -> None:
        launch(torch.cuda.current_stream().cuda_stream)

    return call


if __name__ == "__main__":
    main(*sys.argv[1:])
