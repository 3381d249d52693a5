"""new, show, diff: one rung, and what sets it apart from its parent."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Column, Table
from rich.text import Text

from harness import operators
from harness.catalog import rungs, sources, techniques
from harness.catalog.entries import Technique
from harness.cli.options import NAMES, RUNGS, bad_usage, completing, require_known, technique_called
from harness.cli.output import RECORDED, RUNS, console
from harness.machine.progress import Progress
from harness.rows.tables import NATIVE

if TYPE_CHECKING:
    import pandas

CONTEXT = 2
SIDE_BY_SIDE = 140
"""Columns of a terminal that has room for two languages beside each other."""
STYLES = {"+": "green", "-": "red", "@": "cyan"}

Name = Annotated[str, typer.Argument(metavar="TECHNIQUE", help="A name from `list`.", autocompletion=completing(NAMES))]


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="File stem, kernel symbol and label of the new rung.")],
    parent: Annotated[
        str, typer.Option("--from", help="The rung that it builds on.", autocompletion=completing(RUNGS))
    ],
    idea: Annotated[
        str | None, typer.Option(help="One line that says what changes; the entry and both files begin with it.")
    ] = None,
) -> None:
    """Begin a technique: copy a rung's two files and its registry entry under a new name."""
    origin = technique_called(parent)
    require_known("--from", [techniques.shown(origin)], RUNGS)
    with bad_usage():
        what = f"one change to {origin.name}, {rungs.UNDESCRIBED}" if idea is None else idea
        *written, ladder = (path.relative_to(sources.ROOT) for path in rungs.write(name, origin, what))
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    console.print(
        f"added an entry to {ladder}; to undo all of it, delete both files and the entry\n"
        f"Now make the change in both files and say in their heads what it is: lint refuses one that says "
        f"{rungs.UNCHANGED!r}. Then: twinkernels diff {name}, twinkernels check {name}, twinkernels report {name}, "
        "make format test-fast",
        soft_wrap=True,
    )


def diff(name: Name) -> None:
    """Show what a technique changes against its parent, both languages side by side."""
    technique = technique_called(name)
    found = {language: changes(technique, language) for language in techniques.LANGUAGES}
    shown = {language: lines for language, lines in found.items() if lines}
    if console.width < SIDE_BY_SIDE:
        for lines in shown.values():
            console.print(coloured(lines), "", soft_wrap=True)
        return
    for pair in (list(shown.values())[:2], list(shown.values())[2:]):
        table = Table.grid(*(Column(ratio=1, overflow="fold") for _ in pair), padding=(0, 2), expand=True)
        table.add_row(*map(coloured, pair))
        console.print(table)


def changes(technique: Technique, language: str) -> list[str]:
    """The kernel's diff to its parent's, as lines; one line where it is another's program; none without a kernel."""
    if not sources.has_series(language, technique.path):
        return []
    file = sources.shown(language, technique.path)
    if same := sources.same_program(technique.path, language):
        return [f"{file}: the same program as {same}"]
    parent = techniques.parent(technique, language)
    while parent and (other := sources.same_program(parent.path, language)):
        parent = techniques.find(f"{parent.operator}/{other}")
    if parent is None or not sources.has_series(language, parent.path):
        return [f"{file}: builds on no other kernel in this language"]
    before, after = (sources.kernel_file(language, one.path).read_text().splitlines() for one in (parent, technique))
    return list(difflib.unified_diff(before, after, sources.shown(language, parent.path), file, n=CONTEXT, lineterm=""))


def coloured(lines: Sequence[str]) -> Text:
    return Text("\n").join(Text(line, STYLES.get(line[:1], "")) for line in lines)


def show(name: Name) -> None:
    """Show what is recorded about a technique: speed in each language, gain over its parent, its note and its page."""
    technique = technique_called(name)
    parent = techniques.parent(technique)
    on = f", builds on {parent.name}" if parent else ""
    console.print(f"{technique.name} ({technique.path.rpartition('/')[0]}, {technique.mma}{on})", style="bold")
    console.print(technique.change, "", sep="\n", soft_wrap=True)
    if opening := note(technique):
        console.print(opening, "", sep="\n", soft_wrap=True)
    with Progress() as progress:
        progress.say("reading recorded rows")
        tables = speeds(technique, timings_of(technique))
    for table in tables:
        console.print(table)
    if not tables:
        console.print(f"no times are recorded: `twinkernels bench {name}` on a GPU", soft_wrap=True)
    page = sources.ROOT / "reports" / "site" / "technique" / f"{techniques.key(technique).replace('/', '-')}.html"
    drawn = str(page) if page.is_file() else f"`twinkernels report {name}` draws it"
    console.print(f"page: {drawn}", f"code: `twinkernels diff {name}`", sep="\n", soft_wrap=True)


def note(technique: Technique) -> str:
    """The first paragraph of the technique's note, without the numbers that only its page can fill in."""
    path = sources.ROOT / "reports" / "notes" / technique.operator / f"{technique.name}.md"
    paragraphs = re.split(r"\n\s*\n", path.read_text()) if path.is_file() else []
    plain = (one for one in paragraphs if not one.startswith(("#", "{%", "- ", "|", "<")))
    return " ".join(re.sub(r"\{\{.*?\}\}", "...", next(plain, ""), flags=re.DOTALL).split())


def timings_of(technique: Technique) -> pandas.DataFrame:
    """Usable timings, recorded and fresh, of the experiment of its ladder; if the technique has none there, of the one
    that times it on most problems."""
    from harness.rows import results
    from harness.rows.frame import frame

    timing = frame("timing", root=RECORDED, runs=results.fresh_runs(RUNS), operator=technique.operator)
    timed = timing[(timing.purpose == "timing") & (timing["mode"] == "burst") & timing.usable & (timing.on == "gpu")]
    problems = timed[timed.technique == technique.name].groupby("experiment").problem.nunique()
    ladder = techniques.experiment_of(technique)
    experiment = ladder if ladder in problems or problems.empty else problems.idxmax()
    return timed[timed.experiment == experiment]


def speeds(technique: Technique, timings: pandas.DataFrame) -> list[Table]:
    """A table for each GPU: speed at the best tile of each problem and language, and the gain over the parent."""

    def about(name: str, backend: str, table: Any) -> Any:
        return table[(table.technique == name) & (table.backend == backend)]

    found = []
    for gpu, here in timings.groupby("gpu"):
        backends = [one for one in techniques.SERIES if len(about(technique.name, one, here))]
        if not backends:
            continue
        unit = here.unit.iloc[0]
        title = f"{gpu}: {unit} at the best tile; gain over the parent at the reference tile, ~ if not interleaved"
        table = Table("problem", *backends, box=box.SIMPLE_HEAD, title=title, title_justify="left")
        table.caption = NATIVE if "triton_native" in backends else None
        cells: dict[str, dict[str, str]] = {}
        for backend in backends:
            mine = about(technique.name, backend, here)
            parent = techniques.parent(technique, backend.partition("_")[0])
            theirs = about(parent.name, backend, here) if parent else mine.head(0)
            found_gains = gains(mine[mine.reference_tile], theirs[theirs.reference_tile], here)
            for problem, speed in mine.groupby("problem").speed.max().items():
                gain = found_gains.get(str(problem), "")
                cells.setdefault(str(problem), {})[backend] = f"{speed:.0f} {gain}".strip()
        for problem, cell in sorted(cells.items()):
            table.add_row(problem, *(cell.get(backend, "") for backend in backends))
        found.append(table)
    return found


def gains(ours: pandas.DataFrame, theirs: pandas.DataFrame, timings: pandas.DataFrame) -> dict[str, str]:
    """Problem -> speed of ours over theirs; with ~, over the anchors of their groups, where no group has both."""
    from harness.rows.frame import in_groups, newest

    def of_newest(pairs: Any) -> dict[str, float]:
        last = newest(pairs.assign(time=pairs.time_ours), "problem_ours")
        return dict(zip(last.problem_ours, last.ratio, strict=True))

    anchors = timings[timings.backend.isin(operators.anchors())]
    mine, parents = (of_newest(in_groups(one, anchors)) for one in (ours, theirs))
    apart = {problem: f"(~{mine[problem] / parents[problem]:.2f}x)" for problem in mine if problem in parents}
    return apart | {problem: f"({ratio:.2f}x)" for problem, ratio in of_newest(in_groups(ours, theirs)).items()}
