"""Limits of the hardware, one row each: how much a multiprocessor does in a clock, by kernels that count their own."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import architectures
from harness.catalog.entries import NamedExperiment
from harness.catalog.roofs import MATMUL, MATMUL_SIZE, WARPS, Roof
from harness.machine import environment, processes
from harness.machine.progress import Interrupts, Progress
from harness.rows import making, results

LAUNCHES = 7
"""Samples of each roof."""
CALIBRATION = 64
"""Steps of the first launch, which tells how many steps fill TARGET."""
TARGET = 1_000_000
"""Clocks of a launch: at least 500 microseconds, of which globaltimer's own steps are 0.2% or less."""
REST = 3
"""Rest after each launch, in times of its length, as the timing of kernels has it."""
BUILD_SECONDS, LAUNCH_SECONDS = 120.0, 60.0
"""Deadlines of one build and of all launches of one roof, the start of their process included."""
ARCH = "sm_90a"

Row = dict[str, Any]


def run(experiment: NamedExperiment, path: Path) -> list[Row]:
    """Measures `experiment.roofs` on the GPU here and returns the rows that it appended to `path`; where there is no
    such GPU, every row says why. Raises SystemExit after Ctrl-C (130) or SIGTERM (143)."""
    with results.Writer(path) as writer, Interrupts() as interrupts, Progress() as progress:
        description = environment.describe()
        opening = making.environment(description, "gpu")
        rows = [writer.write(opening)]
        for roof, fields in measured(experiment.roofs, description["gpu"], progress, interrupts):
            row = {**about(experiment, roof), **fields, "environment": opening["id"]}
            rows.append(writer.write({name: value for name, value in row.items() if value is not None}))
            progress.say(f"roof    {roof.name}  {said(rows[-1])}")
    interrupts.leave(path)
    return rows


def about(experiment: NamedExperiment, roof: Roof) -> Row:
    return {
        "kind": "roof",
        "on": "gpu",
        "operator": operators.FIRST,
        "experiment": experiment.name,
        "roof": roof.name,
        "backend": "cuda" if roof.kernel else "cublas",
        "arch": ARCH,
        "source_sha256": roof.source_sha256 if roof.kernel else None,
    }


def said(row: Mapping[str, Any]) -> str:
    if row["status"] != "passed":
        return f"{row['status']}: {row['reason']}"
    rates = [f"{statistics.median(values):.5g} {what} a clock" for what, values in row.get("per_clock", {}).items()]
    for name, unit in (("tflops", "TFLOPS"), ("clock_ghz", "GHz")):
        if row.get(name):
            rates.append(f"{statistics.median(row[name]):.4g} {unit}")
    return ", ".join(rates)


def declined(gpu: Mapping[str, Any] | None) -> str | None:
    """Why roofs cannot be measured here, None when they can."""
    if gpu is None:
        return "no CUDA GPU here: run on a machine with one"
    if architectures.of_capability(gpu["capability"][0]) != ARCH:
        return f"these kernels are built for {ARCH}; this GPU has compute capability {gpu['capability'][0]}"
    return None


def measured(
    roofs: Sequence[Roof], gpu: Mapping[str, Any] | None, progress: Progress, interrupts: Interrupts
) -> Iterator[tuple[Roof, Row]]:
    if reason := declined(gpu):
        yield from ((roof, {"status": "unsupported", "reason": reason}) for roof in roofs)
        return
    assert gpu is not None
    built: dict[str, Any] = {}
    jobs = [(_build, (roof,)) for roof in roofs if roof.kernel]
    found = processes.answers(jobs, {}, seconds=BUILD_SECONDS, stop=lambda: interrupts.requested)
    for (_, (roof,)), answer in found:
        built[roof.name] = answer
        progress.step("compile", len(built), len(jobs), roof.name)
    child = processes.Child({})
    try:
        for roof in roofs:
            if interrupts.requested:
                return
            fields = failed(built.get(roof.name)) if roof.kernel else None
            if fields is None:
                library = built[roof.name] if roof.kernel else None
                child.begin((_launch, (roof, library and library.library, gpu["sm_count"])), LAUNCH_SECONDS)
                child.connection.poll(LAUNCH_SECONDS)
                answer = child.answer()
                fields = not_launched(answer) or answer
                if isinstance(answer, processes.NoAnswer):  # a CUDA error stays with its process
                    child.end()
                    child = processes.Child({})
                if library:
                    fields |= {"code": library.code, "compiler": library.compiler, "compile_s": library.seconds}
            yield roof, fields
    finally:
        child.end()


def failed(built: Any) -> Row | None:
    """Fields of the row where the kernel does not build, or its machine code is not what the roof claims; else None."""
    if built is None:
        return {"status": "interrupted", "reason": "not built before the run was interrupted"}
    if isinstance(built, processes.NoAnswer):
        status = "timeout" if built.how == "timeout" else "compile_error"
        return {"status": status, "reason": environment.scrub(built.reason)}
    if built.missing:
        return {
            "status": "wrong_instruction",
            "reason": "; ".join(built.missing),
            "check": "loops",
            "code": built.code,
            "compiler": built.compiler,
        }
    return None


def not_launched(answer: Any) -> Row | None:
    """Fields of the row where its launches gave nothing; else None."""
    if not isinstance(answer, processes.NoAnswer):
        return None
    status = "launch_error" if answer.how == "raised" else answer.how
    return {"status": status, "reason": environment.scrub(answer.reason)}


def rates(roof: Roof, samples: Sequence[Sequence[Sequence[int]]]) -> dict[str, float]:
    """What one launch tells: {what: per clock of the median multiprocessor, clock_ghz, tflops}. `samples`: of every
    multiprocessor, of every warp, (steps, start clock, end clock, start nanosecond, end nanosecond).

    The work of all warps of a kind is divided by the time from the first one's start to the last one's end: a warp
    that the scheduler prefers ends early and would tell more than its share."""
    multiplying = slice(roof.product_groups * WARPS)
    others = slice(multiplying.stop, None)
    kinds = {"flop": (multiplying, roof.flop), roof.work: (others, roof.amount)}
    found = {
        what: statistics.median(_work(block[which], amount) / _spent(block[which])[0] for block in samples)
        for what, (which, amount) in kinds.items()
        if amount
    }
    spent = [_spent(block) for block in samples]
    found["clock_ghz"] = statistics.median(clocks / nanoseconds for clocks, nanoseconds in spent)
    if roof.flop:
        blocks = [block[multiplying] for block in samples]
        found["tflops"] = sum(_work(block, roof.flop) / _spent(block)[1] for block in blocks) / 1e3
    return found


def _work(warps: Sequence[Sequence[int]], amount: int) -> float:
    """What these warps of a block did; `amount` is a warpgroup's in a step."""
    return sum(steps for steps, *_ in warps) * amount / WARPS


def _spent(warps: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Clocks and nanoseconds from the first start of these warps to their last end."""
    _, clock, end_clock, nanosecond, end_nanosecond = zip(*warps, strict=True)
    return max(end_clock) - min(clock), max(end_nanosecond) - min(nanosecond)


def _build(roof: Roof) -> Any:
    from harness.build import roofs

    return roofs.build_roof(roof, ARCH)


def _launch(roof: Roof, library: Path | None, multiprocessors: int, device: str = "cuda") -> Row:
    """Runs in a process of its own: LAUNCHES samples of a roof. A library for the CPU runs on device cpu."""
    if library is None:
        return _multiply()
    import time

    import torch

    from harness.build import roofs

    samples = torch.zeros(roofs.samples_shape(roof, multiprocessors), dtype=torch.int64, device=device)
    scratch = torch.zeros(multiprocessors, roofs.threads(roof), device=device)
    steps = [CALIBRATION]
    told: list[dict[str, float]] = []
    for number in roofs.launches(library, roof, samples.data_ptr(), scratch.data_ptr(), steps):
        if device == "cuda":
            torch.cuda.synchronize()
        launch = samples.tolist()
        clocks, nanoseconds = map(max, zip(*(_spent(block) for block in launch), strict=True))
        if len(steps) > 1:
            told.append(rates(roof, launch))
        if len(steps) <= LAUNCHES + 1:  # of the first two one calibrates, one warms up
            steps.append(max(1, number * TARGET // clocks) if len(steps) == 1 else number)
        time.sleep(REST * nanoseconds / 1e9)
    told = told[-LAUNCHES:]
    row: Row = {
        "status": "passed",
        "per_clock": {what: [one[what] for one in told] for what in ("flop", roof.work) if what and what in told[0]},
        "clock_ghz": [one["clock_ghz"] for one in told],
        "details": {"steps": steps[-1]},
    }
    if roof.flop:
        row["tflops"] = [one["tflops"] for one in told]
    return row


def _multiply() -> Row:
    import torch

    from harness.measure import timing

    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn(MATMUL_SIZE, MATMUL_SIZE, device="cuda", generator=generator).bfloat16() for _ in range(2))
    out = torch.empty_like(a)
    timed = timing.time_group(
        {MATMUL: lambda: torch.matmul(a, b, out=out)}, stopwatch=timing.CudaStopwatch(), max_seconds=1.0
    )[MATMUL]
    row: Row = {
        "status": timed.status,
        "reason": timed.reason,
        "samples_ms": timed.samples_ms,
        "tflops": [2 * MATMUL_SIZE**3 / milliseconds / 1e9 for milliseconds in timed.samples_ms],
        "mode": "burst",
        "details": {"size": MATMUL_SIZE, "dtype": "bf16"},
    }
    return row
