"""Source files as HTML: highlighted, and as a diff to the parent's program."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from pygments import highlight as pygmentize
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique

LEXERS = {".cu": "cuda", ".py": "python"}
SHOWN = 20
"""Lines of an excerpt."""
AROUND = 4
"""Lines on either side of what an excerpt has to show."""
INSIDE = 3
"""A line of a function tells as much as this many declarations beside it."""
REWRITTEN = 0.4
"""From this share of new lines of code on a file is another one, and an excerpt only a part of the change."""
FIRST_PHASE = "// S = Q K^T"
"""The heading where a main loop's work begins."""


@dataclass(frozen=True)
class Listing:
    """One twin's file. `path` is relative to the checkout; `program` names the technique that it re-exports."""

    path: str
    html: Markup
    lines_of_code: int
    program: str | None


@dataclass(frozen=True)
class Diff:
    """Unified diff between two programs; `html` is empty when they are one."""

    before: Technique
    """The technique whose file holds the program of the parent."""
    after: Technique
    html: Markup
    added: int
    removed: int


@dataclass(frozen=True)
class Excerpt:
    """Lines `first` to `last` of a CUDA file: the part that differs most from the parent's, which `changed` lines of it
    do; 0 of the first technique, which has no parent. `is_rewritten`: much of the file differs."""

    path: str
    first: int
    last: int
    html: Markup
    changed: int
    is_rewritten: bool


def listing(technique: Technique, language: str) -> Listing | None:
    """The twin's file, or None where there is none."""
    path = sources.kernel_file(language, technique.path)
    if not path.is_file():
        return None
    return Listing(
        path.relative_to(sources.ROOT).as_posix(),
        highlighted(path.read_text(), LEXERS[path.suffix]),
        sources.lines_of_code(path),
        sources.same_program(technique.path, language),
    )


def diff(parent: Technique, technique: Technique, language: str) -> Diff | None:
    """From the program of the parent's twin to that of this one, each in the file that holds it, or None where either
    has no file."""
    programs = [_program(which, language) for which in (parent, technique)]
    paths = [sources.kernel_file(language, which.path) for which in programs]
    if not all(path.is_file() for path in paths):
        return None
    before, after = (path.relative_to(sources.ROOT).as_posix() for path in paths)
    old, new = (path.read_text().splitlines() for path in paths)
    lines = list(difflib.unified_diff(old, new, before, after, n=3, lineterm=""))
    body = lines[2:]
    return Diff(
        before=programs[0],
        after=programs[1],
        html=highlighted("\n".join(lines), "diff") if lines else Markup(),
        added=sum(line.startswith("+") for line in body),
        removed=sum(line.startswith("-") for line in body),
    )


def excerpt(parent: Technique | None, technique: Technique) -> Excerpt | None:
    """About twenty lines of the CUDA kernel: those around the most new ones, of the first technique its main loop. None
    where the kernel is the parent's."""
    program = _program(technique, "cuda")
    path = sources.kernel_file("cuda", program.path)
    lines = path.read_text().splitlines()
    if parent is None:
        first = next((place for place, line in enumerate(lines) if line.strip() == FIRST_PHASE), 0)
        return _excerpt(path, lines, first, [], is_rewritten=False)
    before = sources.kernel_file("cuda", _program(parent, "cuda").path)
    if before == path:
        return None
    weights = _new(before.read_text().splitlines(), lines)
    is_rewritten = sum(map(bool, weights)) > REWRITTEN * sum(map(_is_code, lines))
    return _excerpt(path, lines, _fullest(weights, lines, program.shows), weights, is_rewritten=is_rewritten)


def _excerpt(path: Path, lines: list[str], first: int, weights: list[int], *, is_rewritten: bool) -> Excerpt:
    filled = [place for place in range(first, min(first + SHOWN, len(lines))) if lines[place].strip()]
    first, end = filled[0], filled[-1] + 1  # no empty line at either end
    new = tuple(place for place, weight in enumerate(weights[first:end], 1) if weight)
    return Excerpt(
        path.relative_to(sources.ROOT).as_posix(),
        first + 1,
        end,
        highlighted("\n".join(lines[first:end]), LEXERS[path.suffix], new),
        len(new),
        is_rewritten,
    )


def _fullest(weights: list[int], lines: list[str], shows: str) -> int:
    """Where SHOWN lines begin that differ most, the middle one of equal places. With `shows` the first new
    line that says this, and some lines around it, are among those shown."""
    places = range(max(1, len(lines) - SHOWN + 1))
    if shows:
        held = next(place for place, line in enumerate(lines) if shows in line and weights[place])
        places = range(max(0, held - SHOWN + AROUND), min(held - AROUND + 1, places.stop))
    sums = [sum(weights[first : first + SHOWN]) for first in places]
    best = sums.index(max(sums))
    even = next((place for place in range(best, len(sums)) if sums[place] != sums[best]), len(sums)) - best
    return places[best + even // 2]


def _new(old: list[str], new: list[str]) -> list[int]:
    """What each line of a file tells of its difference from another: 0 for a line that both have, and for a comment."""
    weights = [0] * len(new)
    for what, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for place in range(start, end):
            if what != "equal" and _is_code(new[place]):
                weights[place] = INSIDE if new[place].startswith(" ") else 1
    return weights


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith(("//", "#include"))


def _program(technique: Technique, language: str) -> Technique:
    """The technique whose file holds the program of this twin: its own, or the one at the end of its re-exports."""
    while name := sources.same_program(technique.path, language):
        technique = techniques.get(name)
    return technique


def style() -> str:
    """CSS of the highlighting, for light and for dark pages."""
    light = HtmlFormatter(style="xcode").get_style_defs(".code")
    dark = HtmlFormatter(style="monokai").get_style_defs(".code")
    return f"{light}\n@media (prefers-color-scheme: dark) {{ @media screen {{\n{dark}\n}} }}"


def highlighted(text: str, lexer: str, marked: tuple[int, ...] = ()) -> Markup:
    """`text` in the language that pygments calls `lexer`, for a <pre class="code">. `marked`: lines, from 1 on."""
    return Markup(_html(text, lexer, marked))


def _html(text: str, lexer: str, marked: tuple[int, ...]) -> str:
    formatter = HtmlFormatter(nowrap=True, hl_lines=marked)
    return pygmentize(text, get_lexer_by_name(lexer, stripnl=False), formatter)
