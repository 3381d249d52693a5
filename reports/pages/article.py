"""The page of an article: its ladder as printed, and as measured here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog import experiments
from harness.operators.attention import articles
from harness.operators.attention import structured_heads as computed
from reports.data.dataset import Dataset
from reports.draw import heads
from reports.draw.gains import gains_figure
from reports.facts import resources
from reports.facts.published import LANGUAGES, PEERS, Line, largest, shape_line, steps
from reports.pages import common, downloads
from reports.pages.common import Figure

HEADS = "seed_rtx5080"
"""The article whose page shows structured heads."""


def page(datasets: Sequence[Dataset], data: Dataset, name: str) -> dict[str, Any]:
    """`data`: the rows of the headline GPU; `datasets`: all."""
    article = experiments.article(name)
    lines = steps(data, article)
    svg = gains_figure(lines, article)
    caption = data.provenance(data.counting(name))
    return {
        **common.experiment(data, name),
        "article": article,
        "languages": LANGUAGES,
        "peers": PEERS,
        "lines": lines,
        "ends": [shape_line(data, article, shape) for shape in article.shapes],
        "finding": (found := finding(lines)),
        "gains": svg and Figure(Markup(svg), caption, found, downloads.stem(data, name)),
        "own_code_gpu": articles.OWN_CODE_GPU,
        "hit_rates": (rates := resources.hit_rates(datasets) if article.l2_hit_rates else []),
        "counted_here": any(one.problem == article.problem for one in rates),
        "heads": structured_heads() if name == HEADS else None,
    }


def finding(lines: Sequence[Line]) -> str:
    """What the figure of the steps shows: the article's largest, or the largest here where it prints no gain."""
    if (line := largest(lines)) and (here := line.here["cuda"].as_printed):
        there = f"“{line.step.name}” gains most in the article, {line.printed_gain:.2f}×"
        return f"{there}; here it gains {here.value:.2f}× in CUDA"
    gains = [(gain.value, line.step.name) for line in lines if (gain := line.here["cuda"].gain)]
    if not gains:
        return "The steps"
    value, name = max(gains)
    return f"“{name}” gains most here, {value:.2f}× in CUDA"


def structured_heads() -> dict[str, Any]:
    """{"arrays", "figures"} of this checkout's kernel; "arrays" is None where they are not computed."""
    arrays = computed.saved()
    if arrays is None:
        return {"arrays": None, "figures": []}
    where = f"computed on this CPU by running the kernel {arrays['technique']}"
    drawings = (
        (heads.attention(arrays), "Attention of four structured heads; colour is the square root of P, from 0 to 1"),
        (heads.error_by_position(arrays), "Error against the exact result by query position, one line per head"),
        (heads.error_by_head(arrays), "Largest error of each head, beside that of roundings alone"),
    )
    return {"arrays": arrays, "figures": [Figure(Markup(svg), f"{text}; {where}", text, "") for svg, text in drawings]}
