"""Source files as HTML: highlighted, and as a diff to the parent's program."""

import difflib
import hashlib
from dataclasses import dataclass
from functools import cache

import pygments
from markupsafe import Markup
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from harness.catalog import sources
from harness.catalog.entries import Technique
from reports.facts.steps import program_of

LEXERS = {".cu": "cuda", ".py": "python"}
SHOWN = 20
INSIDE = 3
"""A new line of a function tells as much as this many declarations beside it."""
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
    """Lines `first` to `last` of a CUDA file, of which `changed` are new."""

    path: str
    first: int
    last: int
    html: Markup
    changed: int


def listing(technique: Technique, language: str) -> Listing | None:
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
    """From the program of the parent's twin to that of this one; None where either has no file."""
    programs = [program_of(which, language) for which in (parent, technique)]
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
    """The lines of the CUDA kernel with the most new ones, of the first technique its main loop; None without any."""
    program = program_of(technique, "cuda")
    path = sources.kernel_file("cuda", program.path)
    lines = path.read_text().splitlines()
    new: dict[int, int] = {}
    if parent is None:
        first = next((place for place, line in enumerate(lines) if line.strip() == FIRST_PHASE), 0)
    else:
        before = sources.kernel_file("cuda", program_of(parent, "cuda").path)
        if before == path:
            return None
        matcher = difflib.SequenceMatcher(None, before.read_text().splitlines(), lines, autojunk=False)
        changed = [range(start, end) for what, *_, start, end in matcher.get_opcodes() if what != "equal"]
        text = [place for places in changed for place in places if lines[place].strip()]
        code = [place for place in text if not lines[place].strip().startswith(("//", "#include"))]
        new = {place: INSIDE if lines[place].startswith(" ") else 1 for place in code}
        places = range(max(1, len(lines) - SHOWN + 1))
        first = max(places, key=lambda place: sum(new.get(line, 0) for line in range(place, place + SHOWN)))
        held = [place for place in new if program.shows and program.shows in lines[place]]
        if held:  # the registry names a line that tells the technique
            first = min(max(0, min(held) - SHOWN // 2), places[-1])
    shown = [place for place in range(first, min(first + SHOWN, len(lines))) if lines[place].strip()]
    first, last = shown[0], shown[-1]  # no empty line at either end
    marked = tuple(place - first + 1 for place in sorted(new) if first <= place <= last)
    return Excerpt(
        path.relative_to(sources.ROOT).as_posix(),
        first + 1,
        last + 1,
        highlighted("\n".join(lines[first : last + 1]), LEXERS[path.suffix], marked),
        len(marked),
    )


@cache
def style() -> str:
    """CSS of the highlighting, for light and for dark pages."""
    light = HtmlFormatter(style="xcode").get_style_defs(".code")
    dark = HtmlFormatter(style="monokai").get_style_defs(".code")
    return f"{light}\n@media (prefers-color-scheme: dark) {{ @media screen {{\n{dark}\n}} }}"


def highlighted(text: str, lexer: str, marked: tuple[int, ...] = ()) -> Markup:
    """For a <pre class="code">, by pygments, or from the build folder: it takes long. `marked`: lines, from 1 on."""
    digest = hashlib.sha256(f"{pygments.__version__} {lexer} {marked}\0{text}".encode()).hexdigest()
    made = sources.CACHE / "highlighted" / f"{digest[:24]}.html"
    if not made.is_file():
        formatter = HtmlFormatter(nowrap=True, hl_lines=marked)
        found = pygments.highlight(text, get_lexer_by_name(lexer, stripnl=False), formatter)
        sources.put(made, found.encode())
    return Markup(made.read_bytes().decode())
