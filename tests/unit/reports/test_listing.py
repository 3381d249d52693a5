"""Sources on pages: the lines of a kernel that stand for its technique, and links to headings."""

import re
from html import unescape

import pytest

from harness.catalog import sources, techniques
from harness.catalog.techniques import TECHNIQUES
from reports.pages import listing
from reports.pages.common import anchored
from reports.pages.listing import Excerpt


def excerpt(name: str) -> Excerpt | None:
    technique = techniques.of_qualified(name)
    return listing.excerpt(techniques.parent(technique), technique)


def marked(html: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", line) for line in html.split('<span class="hll">')[1:]]


def test_an_excerpt_has_the_lines_that_are_the_technique() -> None:
    found = excerpt("pingpong")
    lines = marked(found.html)
    assert len(lines) == found.changed
    assert any(line.startswith("    bar_sync(my_turn") for line in lines)
    assert any(line.startswith("    bar_arrive(next_turn") for line in lines)
    assert "issue_qk" in found.html, "with its surroundings"


@pytest.mark.parametrize("technique", [one for one in TECHNIQUES if one.shows], ids=lambda technique: technique.name)
def test_an_excerpt_shows_the_line_that_the_registry_names(technique: techniques.Technique) -> None:
    """Where the kernel's name or a moved lambda are the largest change."""
    found = excerpt(technique.name)
    new = [unescape(line) for line in marked(found.html)]
    assert any(technique.shows in line for line in new), found.first


def test_an_excerpt_of_the_first_technique_is_its_main_loop() -> None:
    found = excerpt("scalar")
    assert found.changed == 0
    assert marked(found.html) == []
    assert re.sub(r"<[^>]+>", "", found.html).splitlines()[0].strip() == listing.FIRST_PHASE


def test_a_technique_that_is_its_parents_program_has_no_excerpt() -> None:
    assert excerpt("wide_tile") is None


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.name)
def test_an_excerpt_is_about_twenty_lines_of_the_file(technique: techniques.Technique) -> None:
    found = listing.excerpt(techniques.parent(technique), technique)
    if found is None:
        return
    lines = (sources.ROOT / found.path).read_text().splitlines()
    assert unescape(re.sub(r"<[^>]+>", "", found.html)).splitlines() == lines[found.first - 1 : found.last]
    assert listing.SHOWN - 3 <= found.last - found.first + 1 <= listing.SHOWN
    assert found.changed or techniques.parent(technique) is None


def test_headings_link_to_themselves() -> None:
    page = anchored(
        "<section id='no'></section>"
        '<section id="whole">\n<h2>With 3 numbers</h2></section><h2 class="cuda" id="own">Own</h2>'
        "<h2>Machine &amp; <code>code</code></h2><h2>Machine code</h2><h3>Small</h3>"
        '<div class="proof" id="cell"><h3>Triton</h3></div>'
    )
    link = '<a class="anchor" href="#{}" aria-label="link to this heading">#</a>'
    for words in (
        f'<section id="whole">\n<h2>{link.format("whole")}With 3',
        f'<h2 class="cuda" id="own">{link.format("own")}Own</h2>',
        f'<h2 id="machine-code">{link.format("machine-code")}Machine &amp; <code>',
        f'<h2 id="machine-code-2">{link.format("machine-code-2")}Machine code',
        "<h3>Small</h3>",
        f'id="cell"><h3>{link.format("cell")}Triton',
    ):
        assert words in page, words
