"""Times the programs of a user's file that several Tritons made: their cubins in turn, with the arguments of its run(),
in a process of its own."""

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from harness.build import cubins, cuda_driver, launches
from harness.build.launches import Program
from harness.machine import processes
from harness.measure import timing

SECONDS = 600
"""Time limit for all programs of a file."""
Cubins = Mapping[str, Mapping[str, str]]
"""Version -> what it made of a program: "launch" and "cubin", as harness.expressibility.child says them."""


def run(path: Path, programs: Mapping[str, Cubins]) -> dict[str, Any]:
    """Program -> version -> milliseconds, or why there are none. Raises RuntimeError if the process ends."""
    ((_, answer),) = processes.answers([(_run, (str(path), programs))], {}, seconds=SECONDS)
    if isinstance(answer, processes.NoAnswer):
        raise RuntimeError(answer.reason)
    return dict(answer)


def _run(path: str, programs: Mapping[str, Cubins]) -> dict[str, Any]:
    found, ended = launches.take(path)
    by_name = {program.name: program for program in found}
    return {
        name: timed(by_name[name], made) if name in by_name else dict.fromkeys(made, f"not launched here: {ended}")
        for name, made in programs.items()
    }


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
