"""Links to what others wrote: of techniques and instructions that there are."""

from __future__ import annotations

from harness.catalog import experiments, techniques
from reports.data import links
from reports.pages import guide
from tests.support.pages import rendered


def test_instructions_have_a_section_and_techniques_are_of_the_registry() -> None:
    assert {name for names in links.INSTRUCTIONS.values() for name in names} == set(links.SECTIONS)
    assert all(techniques.get(name) for name in links.INSTRUCTIONS)
    assert links.ptx("pingpong") == {"bar": links.PTX_ISA + links.SECTIONS["bar"]}
    assert links.ptx("scalar") == {}


def test_the_guide_links_all_of_them() -> None:
    page = rendered("guide.html", guide.reading())
    for group in links.READING.values():
        assert all(f'<a href="{link}">{title}</a>' in page for title, link in group.items())
    assert all(links.PTX_ISA + section in page for section in links.SECTIONS.values())


def test_an_article_names_its_author_and_address_as_its_text_does() -> None:
    found = {name: experiments.article(name) for name in experiments.about_articles()}
    assert {name for name, one in found.items() if one.link} == {"seed_5090", "seed_rtx5080"}
    assert all(one.link.startswith("https://") for one in found.values() if one.link)
