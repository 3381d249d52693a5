"""The index of the search box, a script of its own that a page loads when the box is used: lessons, the glossary,
techniques, findings and pages by title, by what is said of them and by words of notes/search.toml."""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import techniques
from reports.data.names import page_of, title
from reports.pages import findings, guide, learn

PATH = "search.js"
NOTE = Path(__file__).resolve().parent.parent / "notes" / "search.toml"
TERM = re.compile(r"^- \*\*(.+?):\*\* (.+(?:\n  .+)*)", re.MULTILINE)


def script() -> str:
    return f"window.searched = {json.dumps(list(entries()), ensure_ascii=False)};\n"


def entries() -> Iterator[dict[str, Any]]:
    """Raises ValueError for words of a page that is not there."""
    note = tomllib.loads(NOTE.read_text())
    pages = note.pop("pages")
    for one in _entries():
        yield {**one, "words": [*one["words"], *note.pop(one["to"], ())]}
    yield from (_entry(page["title"], "page", to, "", page["words"]) for to, page in pages.items())
    if note:
        raise ValueError(f"{NOTE.name}: no entry leads to {', '.join(note)}; name another or give it a title")


def _entries() -> Iterator[dict[str, Any]]:
    for head, block, _ in learn.sections():
        words = (*block["also"], *block["words"])
        yield _entry(head, "lesson", f"{learn.PATH}#{block['name']}", block["picture"], words)
    for term, meaning in TERM.findall((guide.NOTES / "reading.md").read_text()):
        says = re.sub(r"\[(.+?)\]\(.+?\)|[`*]", r"\1", " ".join(meaning.split()))
        yield _entry(term, "glossary", "guide/reading.html#words", says)
    for one in techniques.rungs():
        kind = operators.get(one.operator).title
        yield _entry(title(one.name), kind, page_of(one), one.change, [one.name.replace("_", " "), one.name])
    for head, block, _ in findings.sections():
        to = f"{findings.PATH}#{block['name']}"
        yield _entry(head.replace("`", ""), "finding", to, "", [block["name"].replace("_", " "), "bug compiler"])
    for name, head in guide.TITLES.items():
        yield _entry(head, "page", f"guide/{name}.html", "")


def _entry(name: str, kind: str, to: str, says: str, words: Sequence[str] = ()) -> dict[str, Any]:
    return {"title": name, "kind": kind, "to": to, "says": says, "words": words}
