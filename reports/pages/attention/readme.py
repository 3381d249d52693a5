"""README's first picture: the bars of the first page beside the techniques that decide, one file of its own."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Wedge

from reports.data.loading import load, proofs, recorded_hashes
from reports.draw import bars
from reports.draw.style import BAD, COLORS, GRID, INK, MARKERS, MUTED, PAPER, TICK, canvas, to_svg, write
from reports.facts.answer import Answer, printed
from reports.facts.expressibility import Said, said
from reports.pages.attention import index
from reports.pages.attention.index import Deciding, state

WIDTH, MARGIN, TOP, ROW, FOOT = 1060, 24, 60, 34, 40
NAMES = 580
COLUMNS = {"triton": ("core Triton", 760), "gluon": ("Gluon", 866), "cuda": ("CUDA", 934)}
"""Language -> its name, and where its marks stand, in pixels."""


def picture(found: Answer, lines: Sequence[Deciding]) -> str:
    """SVG on white, text as outlines."""
    height = TOP + bars.height_of(found) + FOOT
    figure, axes = canvas(WIDTH, height, 0, 0, 0, 0)
    axes.set(xlim=(0, WIDTH), ylim=(height, 0))
    shares = [printed(found.over_cuda(language)) for language in ("gluon", "triton")]
    sentence = "On NVIDIA’s {} Gluon reaches {} of hand-written CUDA, core Triton {}."
    write(axes, sentence.format(found.gpu, *shares), (MARGIN, 24), size=15, weight="bold")
    left, wide = MARGIN + bars.LEFT, bars.WIDE - bars.LEFT - bars.RIGHT
    box = (left / WIDTH, FOOT / height, wide / WIDTH, bars.height_of(found) / height)
    chart = figure.add_axes(box)
    chart.set_axis_off()
    bars.draw(chart, found, wide)
    write(axes, "Who controls it?", (NAMES, TOP + 12), weight="bold")
    for language, (name, x) in COLUMNS.items():
        axes.plot([x], [TOP + 12], MARKERS[language], ms=7, color=COLORS[language])
        write(axes, name, (x, TOP + 12), (9, 0), weight="bold")
    write(axes, "÷ CUDA", (WIDTH - MARGIN, TOP + 12), ha="right", weight="bold")
    for place, line in enumerate(lines):
        _line(axes, line, TOP + 30 + ROW * (place + 0.5))
    notes = (
        "disc: you control it; half disc: the compiler decides; diamond: only by a hatch",
        "÷ CUDA: core Triton over CUDA at one tile; in brackets each at its best tile",
    )
    for place, note in enumerate(notes):
        write(axes, note, (NAMES, TOP + 44 + ROW * len(lines) + 17 * place), size=TICK, color=MUTED)
    write(axes, f"{found.problem.slug}, each kernel at its best tile", (MARGIN, height - 16), size=TICK, color=MUTED)
    return to_svg(figure, f"readme {found.problem.slug}", embed=False)


def write_all(output: Path, recorded: Path) -> list[Path]:
    """Writes README's picture, if anything is recorded, from recorded rows alone: editing a kernel changes nothing."""
    datasets = load(recorded, (), recorded_hashes(recorded))
    data = next((data for data in datasets if index.LADDER in data.experiments), None)
    found = index.answer(data) if data else None
    if data is None or found is None:
        return []
    output.mkdir(parents=True, exist_ok=True)
    path = output / "answer.svg"
    path.write_text(picture(found, index.deciding(data, found.problem, said(proofs(recorded, ())))))
    return [path]


def _line(axes: Axes, line: Deciding, y: float) -> None:
    write(axes, line.title, (NAMES, y))
    for language, (_, x) in COLUMNS.items():
        _mark(axes, line.said[language], x, y)
    shown = line.cost.same or line.cost.best
    if shown:
        text = printed(shown) if line.cost.same else f"({printed(shown)})"
        write(axes, text, (WIDTH - MARGIN, y), ha="right", weight="bold")
    axes.plot([NAMES, WIDTH - MARGIN], [y + ROW / 2] * 2, color=GRID, lw=1, zorder=0)


def _mark(axes: Axes, one: Said, x: float, y: float) -> None:
    """Ink falls with control; a fault stands right of the mark."""
    grade, _ = state(one)
    if not grade:
        write(axes, "–", (x, y), size=TICK, color=MUTED, ha="center")
    elif grade == "direct":
        axes.plot([x], [y], "o", ms=10, color=INK)
    elif grade == "hint":
        axes.plot([x], [y], "o", ms=10, color=INK, mfc=PAPER, mew=1.4)
        axes.add_patch(Wedge((x, y), 5, 90, 270, facecolor=INK, lw=0, zorder=4))
    elif grade == "hatch":
        axes.plot([x], [y], "D", ms=8.5, color=INK, mfc=PAPER, mew=1.5)
    else:
        axes.plot([x], [y], "x", ms=9, color=BAD, mew=2.6)
    if one.fault:
        write(axes, one.fault, (x, y), (10, 0), size=TICK, color=BAD)
