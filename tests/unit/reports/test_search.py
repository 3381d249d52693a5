"""The search box: the words that people use lead there."""

from pathlib import Path

import pytest

from reports.pages import guide, search
from tests.support import browser
from tests.support.pages import rendered

FIRST = {
    "warp specialization": "learn.html#warp-specialization",
    "warp specialisation": "learn.html#warp-specialization",
    "producer/consumer": "learn.html#warp-specialization",
    "setmaxnreg": "learn.html#warp-specialization",
    "elect_sync": "learn.html#warp-specialization",
    "bank conflicts": "learn.html#swizzle",
    "swizzling": "learn.html#swizzle",
    "128B swizzle": "learn.html#swizzle",
    "TMA": "learn.html#tma",
    "CUtensorMap": "learn.html#tma",
    "async proxy": "learn.html#tma",
    "software pipelining": "learn.html#mbarrier",
    "num_stages": "learn.html#mbarrier",
    "expect_tx": "learn.html#mbarrier",
    "__syncthreads": "learn.html#mbarrier",
    "arrive": "learn.html#mbarrier",
    "barrier": "learn.html#mbarrier",
    "tensor cores": "learn.html#wgmma",
    "persistent CTA": "learn.html#persistent-blocks",
    "tail effect": "learn.html#waves",
    "tcgen05": "proof/two_cta_mma.html",
    "second consumer": "findings.html#second_consumer",
    "head_dim": "guide/reading.html#words",
    "padded_rows": "technique/padded_rows.html",
    "pingpong": "technique/pingpong.html",
    "GQA": "technique/packed_heads.html",
    "flash decoding": "technique/split_keys.html",
    "split-K": "learn.html#waves",
    "FlashAttention-3": "index.html",
    "CUTLASS": "guide/reading.html",
    "install": "index.html",
    "KV cache": "technique/packed_heads.html",
    "causal mask": "technique/lean_instructions.html",
    "roofline": "index.html",
    "matmul": "answer/gemm.html",
    "no such thing": "",
    "wizzle": "",
}
"""Words -> what they lead to first. A word is found where it begins, and not inside another."""


@pytest.mark.slow
@pytest.mark.skipif(browser.find() is None, reason=f"no browser: install one of {', '.join(browser.NAMES)}")
def test_the_words_that_people_use_lead_there(tmp_path: Path) -> None:
    page = rendered("guide.html", guide.page("reading"), up="../")
    script = (
        "(() => { const input = document.querySelector('.search input'); return "
        f"{list(FIRST)}.map((words) => {{ input.value = words; input.dispatchEvent(new Event('input')); "
        "return document.querySelector('.search a')?.getAttribute('href') ?? ''; }).join('\\n'); })()"
    )
    found = browser.evaluate(f"<script>{search.script()}</script>{page}", script, tmp_path).split("\n")
    assert dict(zip(FIRST, found, strict=True)) == {words: to and f"../{to}" for words, to in FIRST.items()}


def test_words_of_a_page_that_is_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = tmp_path / "search.toml"
    note.write_text('"technique/none.html" = ["word"]\n[pages]\n')
    monkeypatch.setattr(search, "NOTE", note)
    with pytest.raises(ValueError, match=r"search.toml: no entry leads to technique/none.html"):
        search.script()
