"""The promised ratios, from rows. Standard library only.

A ratio compares two samples of one interleaved group and nothing else, but for the articles' own code: that was
measured separately, is quoted, and the entry says so. Rows of an earlier version of a kernel
(`source_sha256` is not the checkout's) do not count.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness import articles, results, sources, techniques
from harness.problem import Experiment, Problem, Tile

Row = Mapping[str, Any]
Hashes = Mapping[tuple[str, str], str]
"""(technique, backend) -> `source_sha256` of the checkout."""

ANCHOR = "sdpa_cudnn"
"""The peer that every interleaved group contains."""
ARTICLE = "article"
"""In place of a backend: the article's own code as quoted in the experiment, measured separately on one kind of GPU."""


SHARED_PTXAS = "_shared_ptxas"
"""How the name of an experiment ends in which nvcc's ptxas assembled Triton's code too: beside the headline, never in
it."""


@dataclass(frozen=True)
class Promise:
    """A ratio that is followed over time: TFLOPS of `ours` over TFLOPS of `theirs`, both the best rung they have."""

    name: str
    ours: str
    theirs: str
    experiment: str = "ladder"


PROMISES = (
    Promise("cuda_over_fa2", "cuda", "sdpa_flash"),
    Promise("cuda_over_cudnn", "cuda", "sdpa_cudnn"),
    Promise("triton_over_cuda", "triton", "cuda"),
    Promise("triton_native_over_flex", "triton_native", "flex"),
    Promise("mma_sync_cuda_over_fa2", "cuda", "sdpa_flash", experiment="over_fa2"),
    Promise("mma_sync_cuda_over_fa2_seed001", "cuda", "sdpa_flash", experiment="seed_raw_ptx"),
    *(Promise(f"{name}_over_article", "cuda", ARTICLE, experiment=name) for name in articles.names()),
)


def checkout_hashes() -> dict[tuple[str, str], str]:
    """Hashes of every twin that has a file here."""
    hashes = {}
    for technique in techniques.TECHNIQUES:
        for backend in techniques.SERIES:
            if sources.kernel_file(backend, technique.path).is_file():
                hashes[technique.name, backend] = sources.source_sha256(backend, technique.path)
    return hashes


def slug(row: Row) -> str:
    return Problem.from_dict(row["problem"]).slug


def median_ms(row: Row) -> float:
    return statistics.median(row["samples_ms"])


def tflops(row: Row) -> float:
    """Median TFLOPS by the harness's FLOP count."""
    return Problem.from_dict(row["problem"]).tflops(median_ms(row))


def is_current(row: Row, hashes: Hashes) -> bool:
    """Whether the row measured this checkout's kernel. Library peers always count."""
    technique = row.get("technique")
    return technique is None or hashes.get((technique, row["backend"])) == row.get("source_sha256")


def counts(row: Row, hashes: Hashes) -> bool:
    """Whether the row is a number to rely on: passed, with samples, of this checkout's kernel."""
    return row["status"] == "passed" and bool(row.get("samples_ms")) and is_current(row, hashes)


def is_unsettled(row: Row, hashes: Hashes) -> bool:
    """Whether the row has samples of this checkout's kernel whose median is not certain enough."""
    return row["status"] == "not_converged" and bool(row.get("samples_ms")) and is_current(row, hashes)


def is_final(row: Row) -> bool:
    """Whether the row is from a problem's final group, in which the fastest of each series met once more."""
    return bool((row.get("details") or {}).get("final"))


def is_as_shipped(row: Row) -> bool:
    """Whether each language was assembled by its own ptxas."""
    return not (row.get("experiment") or "").endswith(SHARED_PTXAS)


def is_reference_tile(row: Row) -> bool:
    """Whether the row's tile is the registry's. Peers have no tile and count as reference."""
    if row.get("technique") is None or row.get("tile") is None:
        return True
    technique = techniques.get(row["technique"])
    return Tile.from_dict(row["tile"]) == techniques.reference_tile(technique, row["problem"]["head_dim"])


def pick(rows: Iterable[Row]) -> Row | None:
    """Of one cell's rows, the newest at the committed ("best") tile if there is one, else at the reference tile."""
    ordered = sorted(rows, key=lambda row: (not is_reference_tile(row), row["time"]))
    return ordered[-1] if ordered else None


def same_group(ours: Row, theirs: Row) -> bool:
    """Whether the two were interleaved in one process."""
    return ours.get("group") is not None and (ours["group"], ours.get("environment")) == (
        theirs.get("group"),
        theirs.get("environment"),
    )


def ratio(ours: Row, theirs: Row) -> float | None:
    """TFLOPS of ours over theirs, or None when they were not interleaved with each other."""
    return tflops(ours) / tflops(theirs) if same_group(ours, theirs) else None


def scorecard(rows: Iterable[Row], *, hashes: Hashes | None = None, mode: str = "burst") -> dict[str, Any]:
    """One entry per promise and GPU that ran its experiment: {name, experiment, ours, gpu, quoted, status, reason,
    value, worst_cell, cells}.

    `value` is the geometric mean over the experiment's problems of ours / theirs, None while the entry is incomplete.
    `quoted` says what theirs is where it was not measured with ours, else it is None. A cell is {problem, value, ours,
    theirs (TFLOPS), ours_is, theirs_is, run} or {problem, reason}.
    """
    hashes = checkout_hashes() if hashes is None else hashes
    all_rows = list(rows)
    gpus = {row["id"]: gpu_name(row) for row in all_rows if row["kind"] == "environment"}
    timing: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in all_rows:
        if (row["kind"], row.get("mode")) == ("timing", mode):
            timing[gpus.get(row.get("environment"), "unknown GPU"), row["experiment"]].append(row)
    entries = [
        _entry(promise, gpu, timing[gpu, promise.experiment], hashes)
        for gpu in sorted({gpu for gpu, _ in timing})
        for promise in PROMISES
        if (gpu, promise.experiment) in timing and (promise.theirs != ARTICLE or gpu == articles.OWN_CODE_GPU)
    ]
    return {"schema": results.SCHEMA, "mode": mode, "entries": entries}


def gpu_name(environment: Row) -> str:
    """The GPU of an environment row, "a CPU" where there was none."""
    return ((environment.get("details") or {}).get("gpu") or {}).get("name") or "a CPU"


def _entry(promise: Promise, gpu: str, rows: list[Row], hashes: Hashes) -> dict[str, Any]:
    quoted = None
    if promise.theirs == ARTICLE:
        article = articles.load(promise.experiment)
        quoted = f"quoted: {article.own_code_is}, measured separately on an {articles.OWN_CODE_GPU}"
        cells = [_quoted_cell(promise, shape, quoted, rows, hashes) for shape in article.shapes if shape.own_code]
    else:
        asked = Experiment.load(promise.experiment).problems
        cells = [_cell(promise, problem, rows, hashes) for problem in sorted(problem.slug for problem in asked)]
    holes = [cell for cell in cells if "reason" in cell]
    complete = not holes
    return {
        "name": promise.name,
        "experiment": promise.experiment,
        "ours": promise.ours,
        "gpu": gpu,
        "quoted": quoted,
        "status": "complete" if complete else "incomplete",
        "reason": "; ".join(f"{cell['problem']}: {cell['reason']}" for cell in holes) or None,
        "value": math.exp(statistics.fmean(math.log(cell["value"]) for cell in cells)) if complete else None,
        "worst_cell": min(cells, key=lambda cell: cell["value"])["problem"] if complete else None,
        "cells": cells,
    }


def _cell(promise: Promise, problem: str, rows: list[Row], hashes: Hashes) -> dict[str, Any]:
    here = [row for row in rows if slug(row) == problem]
    newest = results.newest(here)
    ours, why_ours = _best(promise.ours, newest, hashes)
    theirs, why_theirs = _best(promise.theirs, newest, hashes)
    if final := _final(promise, here, newest, hashes):
        ours, theirs = final
    if ours is None or theirs is None:
        return {"problem": problem, "reason": why_ours or why_theirs}
    if not theirs.get("technique"):  # a peer may be in several groups, and its newest row in another one
        of_group = [row for row in here if row["backend"] == promise.theirs and same_group(ours, row)]
        theirs = next((row for row in of_group if counts(row, hashes)), theirs)
    if theirs.get("technique") and ours.get("mma") != theirs.get("mma"):
        return {"problem": problem, "reason": f"different instruction classes: {ours.get('mma')}, {theirs.get('mma')}"}
    value = ratio(ours, theirs)
    if value is None:
        return {"problem": problem, "reason": f"{_name(ours)} and {_name(theirs)} were not timed in one group"}
    return {
        "problem": problem,
        "value": value,
        "ours": tflops(ours),
        "theirs": tflops(theirs),
        "ours_is": _name(ours),
        "theirs_is": _name(theirs),
        "run": ours.get("environment"),
    }


def _quoted_cell(
    promise: Promise, shape: articles.Shape, quoted: str, rows: list[Row], hashes: Hashes
) -> dict[str, Any]:
    """Our best, from the newest final group where there is one, over a number that has no samples."""
    newest = results.newest(row for row in rows if slug(row) == shape.problem.slug)
    finals = _finals(promise.ours, newest, hashes)
    ours, why = (finals[0], None) if finals else _best(promise.ours, newest, hashes)
    if ours is None or shape.own_code is None:
        return {"problem": shape.problem.slug, "reason": why}
    return {
        "problem": shape.problem.slug,
        "value": tflops(ours) / shape.own_code,
        "ours": tflops(ours),
        "theirs": shape.own_code,
        "ours_is": _name(ours),
        "theirs_is": quoted,
        "run": ours.get("environment"),
    }


def _final(promise: Promise, here: list[Row], newest: Iterable[Row], hashes: Hashes) -> tuple[Row, Row] | None:
    """Both sides from the newest final group that has them: chosen before these samples were taken."""
    for row in _finals(promise.ours, newest, hashes):
        for other in here:
            if other["backend"] == promise.theirs and same_group(row, other) and counts(other, hashes):
                return row, other
    return None


def _finals(backend: str, rows: Iterable[Row], hashes: Hashes) -> list[Row]:
    """A backend's rows in final groups, the newest first."""
    finals = [row for row in rows if row["backend"] == backend and is_final(row) and counts(row, hashes)]
    return sorted(finals, key=lambda row: row["time"], reverse=True)


def _best(backend: str, rows: Iterable[Row], hashes: Hashes) -> tuple[Row | None, str | None]:
    """The fastest rung of a backend on one problem, each at its picked tile; or None and why there is none. Where a
    faster one did not converge, what is left is not the best."""
    of_backend = [row for row in rows if row["backend"] == backend]
    by_technique: dict[str | None, list[Row]] = defaultdict(list)
    for row in of_backend:
        if counts(row, hashes):
            by_technique[row.get("technique")].append(row)
    picked = [row for row in map(pick, by_technique.values()) if row is not None]
    if picked:
        best = max(picked, key=tflops)
        faster = [row for row in of_backend if is_unsettled(row, hashes) and tflops(row) > tflops(best)]
        if faster:
            return None, f"{_name(max(faster, key=tflops))} was faster and did not converge"
        return best, None
    if not of_backend:
        return None, f"{backend}: no row"
    if any(row["status"] == "passed" for row in of_backend):
        return None, f"{backend}: only rows of an earlier version of the kernel"
    newest = max(of_backend, key=lambda row: row["time"])
    return None, f"{backend}: {newest['status']}, {newest.get('reason')}"


def _name(row: Row) -> str:
    """cuda cp_async_pipeline 64x128-s1-w4 (reference tile); another tile is one of the experiment or of the table."""
    if not row.get("technique"):
        return str(row["backend"])
    tile = Tile.from_dict(row["tile"]).slug if row.get("tile") else "?"
    return f"{row['backend']} {row['technique']} {tile} ({'reference' if is_reference_tile(row) else 'another'} tile)"
