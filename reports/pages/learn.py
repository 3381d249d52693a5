"""The page Learn: seven ideas, each with one picture, about twenty lines of the real kernel and one number.

notes/learn.md has them in order: a heading, a block "```toml lesson", and what the idea is.

    name, technique     an anchor; whose CUDA kernel is cut, and whose page has more
    also, words         other words for it: those that the page shows, and those that only the search finds
    cut                 parts of the kernel: [text in the first line, text in the last], each after the one before
    picture             what the drawing shows, in a sentence
    drawing, legend     who does what, as in notes of techniques (reports.facts.timelines); without one the picture is
                        of the banks that a swizzle uses
    number, buys        from rows, as notes fill them in: the number, and the sentence that it begins
    cell                the row of the matrix that says what each language can do; by default the technique's
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness import operators
from harness.catalog import sources, techniques
from reports.data.dataset import Dataset
from reports.data.names import LADDER_LANGUAGES, page_of, short_gpu
from reports.facts import layouts, timelines
from reports.facts.expressibility import LONG, Known, said_of
from reports.pages import listing, prose

PATH = "learn.html"
NOTE = Path(__file__).resolve().parent.parent / "notes" / "learn.md"


def page(every: Mapping[str, Sequence[Dataset]], known: Known, claims: prose.Claims) -> dict[str, Any]:
    """`every`: operator -> its datasets, at least one."""
    lessons = [_lesson(one, every, known, claims) for one in sections()]
    drawn = {said.grade for lesson in lessons for said in lesson["said"].values()}
    return {
        "lessons": lessons,
        "languages": LADDER_LANGUAGES,
        "legend": {grade: text for grade, text in LONG.items() if grade in drawn},
        "first": operators.get(operators.FIRST),
    }


def sections() -> list[prose.Section]:
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
    for place in range(start, len(lines)):
        if text in lines[place]:
            return place
    raise ValueError(f"{NOTE.name}: cut: no line of {path.name} from line {start + 1} on has {text!r}; name another")


def _written(
    block: Mapping[str, Any], datasets: Sequence[Dataset], claims: Callable[..., str]
) -> tuple[str, str, Dataset]:
    """The number and the sentence, all of one GPU: the first that has them in this version."""

    def of(data: Dataset, claim: Callable[..., str]) -> tuple[str, str, Dataset]:
        given = {**prose.references(data), "claim": lambda *those: claim(*those).replace(prose.UNKNOWN, "")}
        number, buys = (prose.filled(block[part], given).strip() for part in ("number", "buys"))
        return number, buys, data

    tried = (of(data, prose.Claims()) for data in datasets)
    has_all = (data for number, buys, data in tried if prose.NOT_MEASURED not in number + buys)
    return of(next(has_all, datasets[0]), claims)


def _lesson(
    section: prose.Section, every: Mapping[str, Sequence[Dataset]], known: Known, claims: prose.Claims
) -> dict[str, Any]:
    """`legend`: kind of a span -> what it is, of those that are drawn. `layouts`: two layouts of a tile in shared
    memory, where these are the picture. `gpu`: whose the number is. `over`: the anchor, where it is of two groups."""
    head, block, text = section
    technique = techniques.of_qualified(block["technique"])
    path = sources.kernel_file("cuda", technique.path)
    number, buys, data = _written(block, every[technique.operator], claims)
    drawn = timelines.of(block.get("drawing", ()))
    return {
        **{part: block[part] for part in ("name", "also", "picture")},
        "technique": page_of(technique),
        "title": head,
        "text": Markup(prose.MARKDOWN.render(text)),
        "timelines": drawn,
        "legend": timelines.legend(drawn, block.get("legend", {})),
        "layouts": () if drawn else layouts.LAYOUTS[:2],
        "path": path.relative_to(sources.ROOT).as_posix(),
        "code": listing.highlighted(cut(path, block["cut"]), "cuda"),
        "number": number.replace("~", ""),
        "buys": Markup(prose.MARKDOWN.renderInline(buys.replace("~", ""))),
        "gpu": short_gpu(data.gpu),
        "over": data.operator.anchor if "~" in number + buys else "",
        "said": said_of(block.get("cell", techniques.key(technique)), known, LADDER_LANGUAGES),
    }
