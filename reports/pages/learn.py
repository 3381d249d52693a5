"""The page Learn: six ideas, each with one picture, about twenty lines of the real kernel and one number.

notes/learn.md has them in order: a heading, a block "```toml lesson", and what the idea is.

    name, technique     an anchor; whose CUDA kernel is cut, and whose page has more
    also                other words for it, which the search finds
    cut                 parts of the kernel: [text in the first line, text in the last], each after the one before
    picture             what the drawing shows, in a sentence
    lanes               who does what, as in notes of techniques (reports.facts.timelines); by default the drawings of
                        the technique's note, or of that of `drawing`; of a swizzle the banks
    number, buys        from rows, as notes fill them in: the number, and the sentence that it begins
    cell                the row of the matrix that says what each language can do; by default the technique's
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from harness.catalog import sources, techniques
from reports.data.dataset import Dataset
from reports.data.names import page_of, short_gpu, title
from reports.facts import layouts, matrix, timelines
from reports.facts.expressibility import Known, Said
from reports.facts.timelines import Timeline
from reports.pages import findings, guide, listing, prose

PATH = "learn.html"
NOTE = Path(__file__).resolve().parent.parent / "notes" / "learn.md"
TERM = re.compile(r"^- \*\*(.+?):\*\* (.+(?:\n  .+)*)", re.MULTILINE)
"""An entry of the glossary."""
LANGUAGES = {"triton": "core Triton", "gluon": "Gluon", "cuda": "CUDA"}
LEGEND = {**timelines.LEGEND, "other": "softmax, or a full buffer", "wait": "waits, or is being filled"}


@dataclass(frozen=True)
class Lesson:
    """`layouts`: two layouts of a tile in shared memory, where these are the picture."""

    name: str
    title: str
    also: Sequence[str]
    text: Markup
    picture: str
    timelines: Sequence[Timeline]
    layouts: Sequence[layouts.Layout]
    path: str
    code: Markup
    number: str
    buys: Markup
    technique: str
    said: Mapping[str, Said]

    @property
    def legend(self) -> dict[str, str]:
        """Kind of a span -> what it is, of those that are drawn."""
        drawn = {span.kind for one in self.timelines for lane in one.lanes.values() for span in lane}
        return {kind: what for kind, what in LEGEND.items() if kind in drawn}


def page(datasets: Sequence[Dataset], known: Known, claims: prose.Claims) -> dict[str, Any]:
    lessons = [_lesson(*one, datasets, known, claims) for one in sections()]
    return {
        "lessons": lessons,
        "languages": LANGUAGES,
        "index": [*entries(lessons)],
        "data": datasets[0],
        "gpu": short_gpu(datasets[0].gpu),
    }


def sections() -> list[tuple[str, dict[str, Any], str]]:
    """(title, block, text) of each lesson, in the order of the page."""
    return prose.sections(NOTE, "lesson")


def cut(path: Path, parts: Sequence[Sequence[str]]) -> str:
    """The parts of a kernel, with "..." between them. Raises ValueError for a text that no line has."""
    lines, at, found = path.read_text().splitlines(), 0, []
    for first, last in parts:
        begin = _line(path, lines, first, at)
        at = _line(path, lines, last, begin) + 1
        found.append(_dedented(lines[begin:at]))
    return "\n...\n".join(found)


def _dedented(lines: Sequence[str]) -> str:
    """As textwrap.dedent, but lines of the preprocessor, which begin in the first column, do not count."""
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.startswith("#"))
    return "\n".join(line if line.startswith("#") else line[indent:] for line in lines)


def _line(path: Path, lines: Sequence[str], text: str, start: int) -> int:
    """The first line from `start` on that has the text."""
    for place in range(start, len(lines)):
        if text in lines[place]:
            return place
    raise ValueError(f"{NOTE.name}: cut: no line of {path.name} from line {start + 1} on has {text!r}; name another")


def _written(block: Mapping[str, Any], datasets: Sequence[Dataset], claims: Callable[..., str]) -> tuple[str, str]:
    """The number and the sentence. A number that the first GPU lacks is of an earlier version or another GPU, with a
    mark."""
    environment, elsewhere = Environment(undefined=StrictUndefined), prose.Elsewhere(datasets[0], datasets)

    def checked(*claim: Any) -> str:
        return claims(*claim).replace(prose.UNKNOWN, "")  # the marks say it

    number, buys = (
        environment.from_string(block[part]).render(elsewhere.references, claim=checked).strip()
        for part in ("number", "buys")
    )
    return number, elsewhere.explained(f"{number}\n\n{buys}").partition("\n\n")[2]


def _lesson(
    head: str, block: dict[str, Any], text: str, datasets: Sequence[Dataset], known: Known, claims: prose.Claims
) -> Lesson:
    name = block["technique"]
    path = sources.kernel_file("cuda", techniques.of_qualified(name).path)
    number, buys = _written(block, datasets, claims)
    markdown = MarkdownIt("commonmark", {"html": False})
    is_swizzle = name in layouts.SHOWN and "drawing" not in block
    return Lesson(
        block["name"],
        head,
        block["also"],
        Markup(markdown.render(text)),
        block["picture"],
        () if is_swizzle else _timelines(block),
        layouts.LAYOUTS[:2] if is_swizzle else (),
        path.relative_to(sources.ROOT).as_posix(),
        listing.highlighted(cut(path, block["cut"]), "cuda"),
        number,
        Markup(markdown.renderInline(buys)),
        name,
        matrix.said_of(block.get("cell", name), known, LANGUAGES),
    )


def _timelines(block: Mapping[str, Any]) -> Sequence[Timeline]:
    if "lanes" in block:
        return [Timeline("", "", {who: timelines.spans(lane) for who, lane in block["lanes"].items()})]
    drawn = timelines.drawings(block.get("drawing", block["technique"]))
    return drawn.timelines if drawn else ()


def entries(lessons: Sequence[Lesson]) -> Iterator[dict[str, str]]:
    """What the search goes through: titles, other words for them, where they lead, and a sentence."""
    for lesson in lessons:
        yield _entry(lesson.title, f"{PATH}#{lesson.name}", lesson.picture, " ".join(lesson.also))
    for term, meaning in TERM.findall((guide.NOTES / "reading.md").read_text()):
        yield _entry(
            term, "guide/reading.html#words", re.sub(r"\[(.+?)\]\(.+?\)|[`*]", r"\1", " ".join(meaning.split()))
        )
    for one in techniques.rungs():
        yield _entry(title(techniques.key(one)), page_of(one), one.change, one.name.replace("_", " "))
    for head, block, _ in findings.sections():
        yield _entry(head.replace("`", ""), f"{findings.PATH}#{block['name']}", "A finding", "bug compiler")


def _entry(name: str, to: str, says: str, words: str = "") -> dict[str, str]:
    return {"title": name, "to": to, "says": says, "words": words}
