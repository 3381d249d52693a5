"""The sentences of the first page, chosen and filled from rows: where a finding turns, so does its sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.rows.intervals import Interval
from harness.rows.scorecard import RIVALS
from reports.data.dataset import Dataset
from reports.data.names import LABELS
from reports.data.titles import title
from reports.facts import comparisons
from reports.facts.answer import INSTRUCTION, Answer
from reports.facts.comparisons import Conflicts, Lengths, Stalls, Work
from reports.facts.correctness import Block, worst
from reports.facts.counters import waited_for
from reports.facts.filling import HeadDim
from reports.facts.matrix import LANGUAGES, Line, counts
from reports.facts.processes import Spread
from reports.facts.steps import Chain

SAME = 0.015
"""Two speeds that differ by less are called equal, where too few processes timed both for an interval."""
RUNS = 0.03
"""By how much speeds of different runs differ: no more is said to move."""
NEAR = 0.02
"""A speed that differs by no more was predicted."""


def sentence(found: Answer) -> str:
    """What core Triton reaches, of the fastest library, of the best CUDA kernel, and with the same instructions."""
    triton, cuda, library = found.triton, found.cuda, found.library
    if not triton.tflops:
        none = f"On {article(found.gpu)} {found.gpu} no timing of core Triton is of the kernels as they are now"
        return f"{none}; record --renew says which still hold."
    text = f"On {article(found.gpu)} {found.gpu} core Triton reaches {triton.tflops:.0f} TFLOPS"
    parts = []
    if found.over_library and library.tflops:
        parts.append(f"{of(found.over_library.value)} {fastest_library(found.has_rivals)} ({library.label})")
    crossed = bool(found.over_cuda and cuda.tflops and cuda.panel != triton.panel)
    if found.over_cuda and cuda.tflops:
        older = ", which still uses the older mma.sync" if crossed and cuda.panel == "mma_sync" else ""
        parts.append(f"{of(found.over_cuda.value)} our best CUDA kernel{older}")
    if parts:
        text += ", " + " and ".join(parts)
    if same := found.same_instructions:
        text += f"; held to mma.sync{' too' if crossed else ''}, Triton reaches {of(same.value)} CUDA"
    return text + "."


def fastest_library(has_rivals: bool) -> str:
    """`has_rivals`: whether all of RIVALS were timed there."""
    return "the fastest library" if has_rivals else "the fastest library timed"


def few_processes(found: Answer) -> str:
    """Which of our bars rest on fewer processes than have a whisker; empty where none does."""
    told = []
    for panel, name in INSTRUCTION.items():
        bars = [bar for bar in found.bars if bar.panel == panel and bar.speed and not bar.is_library]
        if labels := [bar.label for bar in bars if bar.speed and not bar.speed.is_settled]:
            told.append(f"{' and '.join(filter(None, (', '.join(labels[:-1]), labels[-1])))} with {name}")
    return f"Timed in fewer: {'; '.join(told)}." if told else ""


def unlike_tuning(found: Answer) -> str:
    """Of which bars many more tiles were tried than of CUDA's beside it, or many fewer; empty where of none."""
    told = [
        f"{bar.label} {unlike[0]}, CUDA {unlike[1]} with {INSTRUCTION[bar.panel]}"
        for bar in found.bars
        if (unlike := found.unlike(bar))
    ]
    return f"Tiles tried, where unlike: {'; '.join(told)}." if told else ""


def bars_title(found: Answer) -> str:
    """Who passes whom, and by which instruction."""
    same, free = found.same_instructions, found.over_cuda
    if same is None or free is None:
        return "The best of each language and library"
    crossed = found.cuda.panel != found.triton.panel
    with_same = _stands(same)
    if crossed and free.value > 1:
        return f"Triton passes our CUDA because it may use wgmma; with the same instructions it {with_same}"
    gluon = found.gluon_over_cuda["wgmma"]
    nearer = f"; Gluon with wgmma reaches {of(gluon.value)} it" if gluon and gluon.value > free.value else ""
    if _stands(free) == with_same:
        return f"Beside CUDA, core Triton {with_same} with mma.sync and with wgmma{nearer}"
    return f"Beside CUDA, core Triton {_stands(free)} with wgmma and {with_same} with mma.sync{nearer}"


def matrix_title(found: Sequence[Line]) -> str:
    """How many techniques each language writes, faults apart."""
    probed = {name: sum(line.said[name].grade is not None for line in found) for name in LANGUAGES}
    if not any(probed.values()):
        return f"{len(found)} techniques: what core Triton costs, at the same tile"
    others = [(name, label) for name, label in LANGUAGES.items() if name != "triton" and probed[name]]
    rest = [f"{label} {counts(found, name)['direct']}" for name, label in others]
    first = f"Core Triton writes {counts(found, 'triton')['direct']} of {len(found)} techniques"
    return first + (f", {', '.join(rest)}" if rest else "")


def _stands(ratio: Spread) -> str:
    """By the interval where there is one, else by SAME."""
    if ratio.has_interval:
        return "trails" if ratio.high < 1 else "leads" if ratio.low > 1 else "draws level"
    return "trails" if ratio.value < 1 - SAME else "leads" if ratio.value > 1 + SAME else "draws level"


def steps_title(chains: Sequence[Chain]) -> str:
    """The largest step that a technique made alone in CUDA, and where core Triton has it."""
    main = chains[0]
    cuda = main.columns["cuda"]
    alone = [step for step in cuda if step.kind == "technique" and not step.note and step.before and step.after]
    if not alone:
        return "What each step buys"
    largest = max(alone, key=lambda step: step.gain)
    text = f"{title(largest.technique.name)} alone takes CUDA from {largest.before:.0f} to {largest.after:.0f} TFLOPS"
    triton = next(step for step in main.columns.get("triton", []) if step.technique == largest.technique)
    if triton.kind == "same":
        return f"{text}; Triton has it from its first tl.dot"
    if triton.before and triton.after and triton.kind == "technique":
        return f"{text}; core Triton goes from {triton.before:.0f} to {triton.after:.0f}"
    return text


def technique_title(
    name: str,
    gains: Sequence[float],
    tokens: int | None,
    *,
    crippled: bool,
    interval: Interval | None = None,
    alone: Sequence[float] | None = None,
) -> str:
    """What a technique buys in CUDA over its parent, over the problems that have both. `tokens`: their length, where
    others were timed too. `crippled`: the parent is slow on purpose. `interval`: of the mean of the gains, which says
    whether there is a change where it has ends. `alone`: the gains at one tile, as far as they are known, where the
    technique has another tile than its parent."""
    low, high = min(gains), max(gains)
    where = f"in CUDA at {tokens} tokens" if tokens else "in CUDA"
    has_ends = interval and interval.low is not None
    what, apart = title(name), ""
    if alone is not None:
        what += ", with another tile"
        apart = f"; the technique alone, at one tile: {between(alone)}" if alone else ""
    if interval.is_no_change if interval and has_ends else max(high - 1, 1 - low) <= SAME:
        return f"{what}: no change {where}{apart}"
    if high < 1 - SAME:
        return f"{what}: a loss {where}, {between(gains)} of the speed before it{apart}"
    if low > 1 + SAME:
        over = " as a parent that is slow on purpose" if crippled else ""
        return f"{what}: {between(gains)} times as fast {where}{over}{apart}"
    return f"{what}: {between(gains)} times the speed {where}, depending on head dimension and mask{apart}"


def impossible(found: Sequence[Line]) -> list[tuple[Line, Spread]]:
    """Techniques that core Triton cannot express, and what they buy in CUDA, where that was timed."""
    return [(line, line.gain) for line in found if line.said["triton"].grade == "inexpressible" and line.gain]


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


def errors_title(found: Sequence[Block]) -> str:
    """The kernel that errs most, or how many fail."""
    failed = sum(any(error == math.inf for error in errors) for block in found for errors in block.errors)
    if failed:
        return f"{failed} kernel{'s' if failed > 1 else ''} failed a check"
    error, name, backend = worst(found)
    return f"No kernel errs by more than {error:.2f} times a careful 16-bit computation: “{name}” in {LABELS[backend]}"


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
