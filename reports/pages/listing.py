"""Source files as HTML: highlighted, and as a diff to the parent's program."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from markupsafe import Markup
from pygments import highlight as pygmentize
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from reports.draw.reuse import once

LEXERS = {".cu": "cuda", ".py": "python"}


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


def highlighted(text: str, lexer: str) -> Markup:
    """`text` in the language that pygments calls `lexer`, for a <pre class="code">."""
    return Markup(_html(text, lexer))


@once
def _html(text: str, lexer: str) -> str:
    return pygmentize(text, get_lexer_by_name(lexer, stripnl=False), HtmlFormatter(nowrap=True))
