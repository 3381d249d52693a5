"""README's first picture: the bars of the first page beside its matrix, one file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Wedge

from reports.data.loading import load, of_compilers, recorded_hashes
from reports.draw import bars
from reports.draw.style import BAD, COLORS, GRID, INK, MARKERS, MUTED, PAPER, TICK, canvas, to_svg, width_of, write
from reports.facts import answer, matrix
from reports.facts.answer import Answer
from reports.facts.expressibility import Said, said
from reports.facts.matrix import LANGUAGES, Line

ROOT = Path(__file__).resolve().parent.parent
WIDTH, MARGIN, TOP, ROW, FOOT = 1060, 24, 66, 27, 56
NAMES = 440
COLUMNS = {"triton": 628, "gluon": 716, "tlx": 784, "cuda": 842}
"""Language -> where its marks stand, in pixels."""
COST = {0.4: 905, 1.0: 972}
"""Triton over CUDA -> pixels."""


def picture(found: Answer, lines: Sequence[Line]) -> str:
    """SVG on white, text as outlines."""
    tall = bars.height_of(found, narrow=True)
    height = TOP + max(tall, ROW * (len(lines) + 1)) + FOOT
    figure, axes = canvas(WIDTH, height, 0, 0, 0, 0)
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    for place, text in enumerate(_wrapped(_sentence(found))):
        write(axes, text, (MARGIN, 20 + 21 * place), size=15, weight="bold")
    left, wide = MARGIN + bars.margin(narrow=True), bars.NARROW - bars.margin(narrow=True)
    chart = figure.add_axes((left / WIDTH, 1 - (TOP + tall) / height, wide / WIDTH, tall / height))
    chart.set_axis_off()
    bars.draw(chart, found, wide, narrow=True)
    _head(axes)
    for place, line in enumerate(lines):
        _line(axes, line, TOP + ROW * (place + 1.5))
    for place, note in enumerate(_notes(found, lines)):
        write(axes, note, (MARGIN, height - FOOT + 20 + 17 * place), size=TICK, color=MUTED)
    return to_svg(figure, f"readme {found.problem.slug}", embed=False)


def write_all(output: Path, *, recorded: Path = ROOT / "recorded") -> list[Path]:
    """Writes README's picture into the folder; an empty list while nothing is recorded.

    From recorded rows alone, the newest version of each kernel in them: editing a kernel does not change the picture,
    recording it does.
    """
    datasets = load(recorded, (), recorded_hashes(recorded))
    data = next((data for data in datasets if answer.LADDER in data.experiments), None)
    found = answer.answer(data) if data else None
    if data is None or found is None:
        return []
    first, rest = matrix.lines(data, found.problem, said(of_compilers(recorded, ())[0]))
    output.mkdir(parents=True, exist_ok=True)
    path = output / "answer.svg"
    path.write_text(picture(found, [*first, *rest]))
    return [path]


def _sentence(found: Answer) -> str:
    shares = [
        f"{ratio.value:.2f} of {name}"
        for ratio, name in ((found.over_library, found.library.label), (found.over_cuda, "our best CUDA kernel"))
        if ratio
    ]
    reached = f"core Triton reaches {found.triton.tflops or 0:.0f} TFLOPS"
    return f"On NVIDIA’s {found.gpu} {', '.join((reached, ' and '.join(shares)))}."


def _wrapped(sentence: str) -> list[str]:
    """In lines as wide as the picture."""
    lines = [""]
    for word in sentence.split():
        longer = f"{lines[-1]} {word}".strip()
        if width_of(longer, 15, bold=True) > WIDTH - 2 * MARGIN:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _head(axes: Axes) -> None:
    y = TOP + ROW / 2
    write(axes, "Technique", (NAMES, y), weight="bold")
    for language, x in COLUMNS.items():
        axes.plot([x], [y], MARKERS[language], ms=7, color=COLORS[language])
        write(axes, LANGUAGES[language], (x, y), (9, 0), weight="bold")
    for tick, x in COST.items():
        write(axes, f"{tick:.1f}", (x, y), size=TICK, color=MUTED, ha="center")
    write(axes, "Triton ÷ CUDA", (COST[0.4] - 20, y - 17), weight="bold")
    axes.plot([NAMES, WIDTH - MARGIN], [y + ROW / 2] * 2, color=MUTED, lw=1)


def _line(axes: Axes, line: Line, y: float) -> None:
    write(axes, line.title, (NAMES, y))
    for language, x in COLUMNS.items():
        _mark(axes, line.said[language], x, y)
    for x in COST.values():
        axes.plot([x, x], [y - ROW / 2, y + ROW / 2], color=MUTED if x == COST[1.0] else GRID, lw=1, zorder=0)
    if line.cost.same and line.cost.best:
        axes.plot([_at(line.cost.same.value), _at(line.cost.best.value)], [y, y], color=MUTED, lw=1.5)
    if line.cost.best:
        axes.plot([_at(line.cost.best.value)], [y], "o", ms=8, color=INK, mfc=PAPER, mew=1.5)
    if line.cost.same:
        axes.plot([_at(line.cost.same.value)], [y], "o", ms=8, color=INK)
        write(axes, f"{line.cost.same.value:.2f}", (WIDTH - MARGIN, y), ha="right", weight="bold")
    elif not line.cost.known:
        text = f"{line.gain.value:.2f}× in CUDA" if line.gain else "not yet"
        write(axes, text, (WIDTH - MARGIN, y), ha="right", size=TICK, color=MUTED, backgroundcolor=PAPER)
    axes.plot([NAMES, WIDTH - MARGIN], [y + ROW / 2] * 2, color=GRID, lw=1, zorder=0)


def _at(ratio: float) -> float:
    low, high = COST[0.4], COST[1.0]
    return low + (min(max(ratio, 0.34), 1.14) - 0.4) / 0.6 * (high - low)


def _mark(axes: Axes, one: Said, x: float, y: float) -> None:
    """Ink falls with control; a fault stands right of the mark."""
    if one.grade is None:
        write(axes, "–", (x, y), size=TICK, color=MUTED, ha="center")
    elif one.grade == "direct":
        axes.plot([x], [y], "o", ms=10, color=INK)
    elif one.grade == "automatic":
        axes.plot([x], [y], "s", ms=9.5, color=INK, mfc="#8b939e", mew=1.2)
    elif one.grade == "hint":
        axes.plot([x], [y], "o", ms=10, color=INK, mfc=PAPER, mew=1.4)
        axes.add_patch(Wedge((x, y), 5, 90, 270, facecolor=INK, lw=0, zorder=4))
    elif one.grade == "hatch":
        axes.plot([x], [y], "D", ms=8.5, color=INK, mfc=PAPER, mew=1.5)
    else:
        axes.plot([x], [y], "x", ms=9, color=BAD, mew=2.6)
    if one.fault:
        write(axes, one.fault, (x, y), (10, 0), size=TICK, color=BAD)


def _notes(found: Answer, lines: Sequence[Line]) -> list[str]:
    probed = any(line.said[name].grade for line in lines for name in LANGUAGES)
    marks = "disc: written by you, square: by the compiler, half disc: hint, diamond: hatch, cross: impossible; "
    dots = "dot: Triton over CUDA at the same tile, ring: each at its best"
    told = f"{marks if probed else '–: not probed yet; '}{dots}"
    where = f"{found.problem.slug} on NVIDIA’s {found.gpu}"
    across = "a ratio across the panels is of different instructions"
    return [told, f"{where}, each kernel of the bars at its best tile; {across}"]


if __name__ == "__main__":
    for path in write_all(ROOT / "figures"):
        print(path)
