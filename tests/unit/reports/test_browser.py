"""The pages of the recorded rows in a real browser, light and dark, at the sizes of a screen and of a phone."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reports import build
from tests.support import browser
from tests.support.pages import ANSWERS, LONGEST, PAGES, WORDS, Recorded, count_words

SCREEN, PHONE = (1400, 900), (390, 844)
UNANSWERED = re.compile(r"recorded yet|measured yet|computed yet|(?<!“)not (?:probed|measured|checked|inspected)")
WAITING = {("technique/flagship.html", "not inspected"): 1}
"""Page and words -> how often they may stand there. What they wait for is a run on a GPU or a probe; an entry that is
answered goes."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("recorded"),
    pytest.mark.skipif(browser.find() is None, reason=f"no browser: install one of {', '.join(browser.NAMES)}"),
]

Found = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def site(recorded_site: Recorded) -> Path:
    return recorded_site.folder


@pytest.fixture(scope="module")
def light(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return browser.measure(site, (*PAGES, *ANSWERS), (SCREEN, PHONE), tmp_path_factory.mktemp("light"))


@pytest.fixture(scope="module")
def dark(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return browser.measure(site, PAGES[:4], (SCREEN, PHONE), tmp_path_factory.mktemp("dark"), dark=True)


def findings(found: Found, name: str) -> dict[tuple[str, int], list[str]]:
    return {where: measured[name] for where, measured in found.items() if measured[name]}


def test_every_page_was_measured(light: Found) -> None:
    assert set(light) == {(page, width) for page in (*PAGES, *ANSWERS) for width in (SCREEN[0], PHONE[0])}


def test_the_first_screen_needs_no_scrolling(light: Found) -> None:
    wide, phone = (light["index.html", size[0]]["first"] for size in (SCREEN, PHONE))
    assert wide["end"] <= SCREEN[1]
    assert phone["sentence"] < phone["bars"] < phone["matrix"]  # a phone shows the same in order
    assert phone["bars"] < PHONE[1] * 0.6  # the sentence, and most of the bars
    assert phone["sentence"] > 0


def test_the_first_screen_is_page_one_of_a_print(site: Path, tmp_path: Path) -> None:
    """It fits one sheet, which has no place for more, and what follows it begins on the next."""
    whole = (site / "index.html").read_text()
    first, section, _ = whole.partition("</section>")
    assert 'class="first"' in first
    higher, next_one = tmp_path / "higher.html", tmp_path / "next.html"
    higher.write_text(f"{first}<p style='height:80px'>more</p>{section}</main></body></html>")
    next_one.write_text(f"{first}{section}<section>x</section></main></body></html>")
    assert [browser.printed_pages(page, tmp_path) for page in (higher, next_one)] == [2, 2]


def test_a_click_on_a_head_sorts_a_table(tmp_path: Path) -> None:
    """Numbers by size whatever stands beside them, words by the alphabet, what has no number last both ways."""
    rows = (
        ("16-byte", "+3.1% (2.6 to 3)", "1,200"),
        ("wgmma", "\u22122.0%", "\u2013"),
        ("scalar", "+10.0%", "20 of 30"),
    )
    body = "".join(f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for name, *cells in rows)
    head = "<table class=sort><thead><tr><th>a<th>b<th>c</tr></thead><tbody>"
    foot = "<tfoot><tr><th>sum<td>0<td>0</tr></tfoot></table>"
    script = (build.ROOT / "templates" / "script.js").read_text()
    page = f"<!doctype html><meta charset=utf-8>{head}{body}</tbody>{foot}<script>{script}</script>"
    names = "[...document.querySelectorAll('tbody th, tfoot th')].map(th => th.textContent).join(' ')"
    clicks = "[0, 0, 1, 1, 2, 2].map(n => {document.querySelectorAll('thead button')[n].click(); return %s}).join('; ')"
    assert browser.evaluate(page, clicks % names, tmp_path).split("; ") == [
        "16-byte scalar wgmma sum",
        "wgmma scalar 16-byte sum",
        "wgmma 16-byte scalar sum",
        "scalar 16-byte wgmma sum",
        "scalar 16-byte wgmma sum",
        "16-byte scalar wgmma sum",
    ]


def test_no_page_that_a_reader_is_led_to_is_without_an_answer(site: Path) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for page in PAGES:
        text = re.sub(r"<(script|style)\b.*?</\1>", "", (site / page).read_text(), flags=re.DOTALL)
        found.update((page, words) for words in UNANSWERED.findall(text))
    assert found <= Counter(WAITING), "answer it, or say it once"
    assert set(found) == set(WAITING), "answered: take it off the list"


def test_no_page_of_recorded_rows_has_too_many_words(site: Path) -> None:
    """But the list of all experiments and scores."""
    pages = [page for page in (*PAGES, *ANSWERS, *LONGEST) if page != "data.html"]
    counted = {page: count_words((site / page).read_text()) for page in pages}
    assert {page: words for page, words in counted.items() if words > WORDS} == {}


@pytest.mark.parametrize("name", ["overflow", "small", "overlap", "pictures", "requests"])
def test_nothing_trips_the_eye(name: str, light: Found) -> None:
    assert findings(light, name) == {}


@pytest.mark.parametrize("name", ["contrast", "colours"])
def test_text_and_colours_stand_out(name: str, light: Found, dark: Found) -> None:
    assert findings(light, name) == {}
    assert findings(dark, name) == {}


def test_the_measure_finds_what_is_wrong(tmp_path: Path) -> None:
    """Each finding once, planted: so that silence means something."""
    (tmp_path / "bad.html").write_text(
        "<!doctype html><style>:root{--ink:#000;--muted:#999;--link:#000;--cuda:#000;--triton:#000;--gluon:#000;"
        "--tlx:#000;--lib:#000;--bad:#000;--paper:#fff;--panel:#fff}</style><body>"
        "<p style='font-size:9px'>small</p><p style='color:#aaa'>pale</p><div style='width:3000px'>wide</div>"
        "<p style='position:absolute;top:300px'>one over</p><p style='position:absolute;top:302px'>another text</p>"
        "<figure><svg width='200' height='100'></svg></figure></body>"
    )
    (found,) = browser.measure(tmp_path, ["bad.html"], [PHONE], tmp_path).values()
    for name in ("overflow", "small", "overlap", "contrast", "colours", "pictures"):
        assert found[name], name
    assert found["requests"] == []
