"""The sentences of the first page, chosen and filled from rows: where a finding turns, so does its sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.operators.attention.promises import RIVALS
from reports.data.dataset import Dataset
from reports.data.names import LABELS
from reports.data.titles import title
from reports.facts import comparisons
from reports.facts.answer import Answer
from reports.facts.comparisons import Conflicts, Lengths, Stalls, Work
from reports.facts.counters import waited_for
from reports.facts.filling import HeadDim

RUNS = 0.03
"""By how much speeds of different runs differ: no more is said to move."""
NEAR = 0.02
"""A speed that differs by no more was predicted."""


def fastest_library(has_rivals: bool) -> str:
    """`has_rivals`: whether all of RIVALS were timed there."""
    return "the fastest library" if has_rivals else "the fastest library timed"


def of(ratio: float) -> str:
    """0.77 of; 1.24 times."""
    return f"{ratio:.2f} of" if ratio < 1 else f"{ratio:.2f} times"


def percent(ratio: float) -> str:
    """+4%, −12%."""
    value = round(100 * (ratio - 1))
    return f"{'+' if value >= 0 else '−'}{abs(value)}%"


def article(name: str) -> str:
    """an H200, a B200."""
    return "an" if name[:1].upper() in "AEFHILMNORSX" else "a"


def problems_title(answers: Sequence[Answer]) -> str:
    """The range of both ratios over masks and head dimensions."""
    same = [one.same_instructions.value for one in answers if one.same_instructions]
    cuda = [one.over_cuda.value for one in answers if one.over_cuda]
    free = [one.over_library.value for one in answers if one.over_library]
    complete = all(one.has_rivals for one in answers if one.over_library)
    parts = []
    if same:
        parts.append(f"held to mma.sync it reaches {between(same)} of CUDA")
    if free:
        ours = f"{between(cuda)} of our best CUDA kernel and " if cuda else ""
        parts.append(f"free to choose, {ours}{between(free)} of {fastest_library(complete)}")
    return f"Core Triton over masks and head dimensions: {'; '.join(parts)}" if parts else "Masks and head dimensions"


def lengths_title(data: Dataset, found: Lengths) -> str:
    """How the share of the fastest library moves from the shortest length to the longest. The two lengths are of
    different runs, so the shares are told to differ where they do so by more than runs."""
    curve = found.curve("triton_native") or found.curve("triton")
    shares = [share for place in (0, -1) if curve and (share := comparisons.share(data, found, curve.series, place))]
    if not curve or len(shares) < 2:
        return "Speed against sequence length"
    first, last = shares
    problems = [curve.points[place][0] for place in (0, -1)]
    lengths = [problem.seq_q for problem in problems]
    library = fastest_library(all(found.has(rival, problem) for rival in RIVALS for problem in problems))
    if abs(last / first - 1) <= RUNS:
        return f"Core Triton keeps {between(shares)} of {library} from {lengths[0]} to {lengths[1]} tokens"
    moves = "gains" if last > first else "loses"
    shares_told = f"{first:.2f} of {library} at {lengths[0]} tokens, {last:.2f} at {lengths[1]}"
    return f"Core Triton {moves} ground with length: {shares_told}"


def roofline_title(work: Sequence[Work], bytes_per_s: float, peak: float, instructions: str) -> str:
    """What the fastest kernel reaches of what its instructions can do, and whether DRAM limits it."""
    fastest = max(work, key=lambda one: one.tflops)
    used = fastest.bandwidth_used(bytes_per_s)
    share = f"{100 * fastest.tflops / peak:.0f}%"
    text = f"The fastest {instructions} kernel that ncu counted reaches {share} of that instruction’s limit"
    return f"{text}; DRAM, at {100 * used:.0f}% of its bandwidth, is {'not ' if used < 0.6 else ''}what holds it back"


def filling_title(languages: Sequence[Sequence[HeadDim]]) -> str:
    """At what share of the peak each multiplies by the fit, at the head dimension nearest to 128."""
    head_dim = min((one.head_dim for one in languages[0]), key=lambda dim: abs(dim - 128))
    rates = {LABELS[one.series]: one.rate for of in languages for one in of if one.head_dim == head_dim}
    (ours, rate), *others = rates.items()
    told = "".join(f", {label} at {100 * rate:.0f}%" for label, rate in others)
    text = (
        f"Within a tile of head_dim {head_dim} {ours} multiplies at {100 * rate:.0f}% of the tensor cores’ peak{told}"
    )
    return f"{text}: a fit over all lengths"


def stalls_title(found: Sequence[Stalls]) -> str:
    """What warps of the fastest kernel that was counted wait for most."""
    fastest = max(found, key=lambda one: one.tflops)
    reason, _ = fastest.reasons[0]
    return f"In “{title(fastest.technique)}” warps wait most for {waited_for(reason)}"


def conflicts_title(found: Sequence[Conflicts]) -> str:
    """The kernel that loses most to bank conflicts, and how the best cure leaves it."""
    worst = max(found, key=lambda one: one.share)
    cured = [
        one
        for one in found
        if one.backend == worst.backend and one.technique in ("xor_swizzle", "padded_rows", "tma_swizzle")
    ]
    if worst.share < 0.01:
        return "No kernel loses a percent of its passes to bank conflicts"
    text = f"In “{title(worst.technique)}” {100 * worst.share:.0f}% of the passes over shared memory are repeats"
    if not cured:
        return text
    best = min(cured, key=lambda one: one.share)
    left = "none" if best.share < 0.005 else f"{100 * best.share:.0f}%"
    return f"{text}, in “{title(best.technique)}” {left}"


def tiles_title(table: Sequence[Mapping[str, Any]]) -> str:
    """How much the choice of tile is worth: the best over the worst of each kernel."""
    spans = []
    for kernel in dict.fromkeys((line["technique"], line["series"]) for line in table):
        speeds = [line["tflops"] for line in table if (line["technique"], line["series"]) == kernel]
        spans.append(max(speeds) / min(speeds))
    return (
        f"Among the tiles worth timing, the best is up to {percent(max(spans)).removeprefix('+')} faster than the worst"
    )


def between(values: Sequence[float]) -> str:
    """0.77 to 0.87; one number where they are equal."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"
