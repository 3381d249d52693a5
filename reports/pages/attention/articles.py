"""The page of an article: its ladder as printed, and as measured here."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from harness.catalog import experiments
from harness.operators.attention import articles
from harness.operators.attention import structured_heads as computed
from reports.data.dataset import Dataset, Row
from reports.data.names import short_gpu
from reports.facts import counters
from reports.pages import downloads
from reports.pages.attention import heads
from reports.pages.attention.gains_figure import gains_figure
from reports.pages.attention.published import LANGUAGES, PEERS, Line, largest, shape_line, steps, timed_in
from reports.pages.common import Figure, Rows, provenance

L2_ORDERS = ("batched_m_tiles", "l2_grid_order")
"""The same kernel, blocks in two orders."""
HEADS = "seed_rtx5080"
"""The article whose page shows structured heads."""


def page(rows: Rows, name: str) -> dict[str, Any]:
    (data, earlier), article = timed_in(rows, name), experiments.article(name)
    lines = steps(data, article)
    svg = gains_figure(lines, article)
    caption = provenance(data, data.counting(name))
    return {
        "article": article,
        "total": len(data.timings(name)),
        "earlier": earlier and short_gpu(data.gpu),
        "languages": LANGUAGES,
        "peers": PEERS,
        "lines": lines,
        "ends": [shape_line(data, article, shape) for shape in article.shapes],
        "finding": (found := finding(lines)),
        "gains": svg and Figure(Markup(svg), caption, found, downloads.stem(data, name)),
        "own_code_gpu": articles.OWN_CODE_GPU,
        "hit_rates": hit_rates(rows.fresh_first) if article.l2_hit_rates else None,
        "l2_orders": L2_ORDERS,
        "heads": structured_heads() if name == HEADS else None,
        "stem": downloads.stem_of(data, name),
    }


def hit_rates(datasets: Sequence[Dataset]) -> list[tuple[Row, dict[str, float]]]:
    """(row, L2 hit rates in percent by order of blocks) of problems with several heads where ncu counted both."""
    cells: dict[tuple[str, str], tuple[Row, dict[str, float]]] = {}
    for name in L2_ORDERS:
        for row, _ in counters.profiled(datasets, name):
            rate = row.details["metrics"].get(counters.HIT_RATE)
            if rate is not None and row.problem_fields["heads"] > 1:
                cells.setdefault((row.problem, row.tile), (row, {}))[1].setdefault(name, rate)
    return [cell for cell in cells.values() if set(cell[1]) == set(L2_ORDERS)]


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
