"""Rows as tables in a terminal."""

import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from harness import operators
from harness.catalog import techniques
from harness.catalog.entries import Tile
from harness.operators.errors import LACKS
from harness.rows import results
from harness.rows.reading import Row, case, median_ms, name_of, problem_of, slug, status_word, tflops, tile_slug

FINE = ("passed", "unsupported")
"""Statuses that are no failure: a kernel may decline a cell."""
UNDECIDED = ("not_converged", "interrupted")
"""Statuses that are neither success nor failure."""
NATIVE = "triton native: the Triton source compiled without DISABLE_MMA_V3, so that it may use wgmma"
Rows = Iterable[Row]


def folding(*names: str) -> list[Column]:
    """Columns that wrap their words in a narrow terminal and never cut them."""
    return [Column(name, overflow="fold") for name in names]


def failed(rows: Rows) -> bool:
    """True if something is wrong. A timing that did not converge is listed as a failure but is none: its kernel passed
    the gate."""
    return any(row.get("status", "passed") not in (*FINE, *UNDECIDED) for row in rows)


def exit_code(rows: Sequence[Row], *, named: bool = False) -> int:
    """Of a command that ends with these rows: 1 if something is wrong, 3 if there is no verdict, else 0. There is none
    where a time did not converge, where a row was interrupted, where no row of a user's kernel passed, and where that
    kernel declined a problem that was `named`."""
    mine = [row["status"] for row in rows if row.get("kernel")]
    statuses = {row.get("status", "passed") for row in rows}
    open_ = statuses & {*UNDECIDED} or (mine and "passed" not in mine) or (named and "unsupported" in mine)
    return 1 if failed(rows) else 3 if open_ else 0


def code(rows: Rows) -> list[Table]:
    """Registers, memory and instructions, languages side by side: a table for each technique and problem."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["status"] == "passed":
            groups[_shown(row), _cell(row)].append(row)
    tables = []
    for (technique, cell), group in groups.items():
        table = Table(title=f"{technique}  {cell}", title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("", overflow="fold")
        for row in group:
            table.add_column(f"{row['backend'].replace('_', ' ')}\n{row['arch']}", justify="right", overflow="fold")
        if any(row["backend"] == "triton_native" for row in group):
            table.caption = NATIVE
        for name in ("registers", "spill_bytes", "smem_bytes"):
            table.add_row(name.replace("_", " "), *(str(row["code"][name]) for row in group), style="bold")
        names = dict.fromkeys(name for row in group for name in row["code"]["census"])
        for name in sorted(names, key="instructions".__eq__):  # last
            counts = [row["code"]["census"].get(name, 0) for row in group]
            if any(counts):
                table.add_row(name, *(str(count or "") for count in counts))
        tables.append(table)
    return tables


def _shown(row: Row) -> str:
    """Its technique as `list` shows it."""
    return techniques.shown(techniques.at(row["technique"], problem_of(row)))


def memory(rows: Rows) -> list[Table]:
    """Memory traffic of each instruction of a kernel, with sums in the last line: a table for each row."""
    tables = []
    for row in rows:
        if row["status"] != "passed":
            continue
        title = f"{_shown(row)}  {slug(row)}  {tile_slug(row)}"
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_footer=True)
        totals = row["details"]["totals"]
        columns = {
            "bytes": f"{sum(totals['bytes'].values()):,}",
            "wavefronts": f"{totals['wavefronts']:,}",
            "bank conflicts": f"{totals['bank_conflicts']:,}",
            "sectors": f"{totals['sectors']:,}",
            "least sectors": f"{totals['least_sectors']:,}",
        }
        if any(site.get("bytes_in_flight") for site in row["details"]["sites"]):
            columns |= {"bytes in flight": "", "bytes left": ""}  # the most at a wait: no sums
        table.add_column("line", justify="right", overflow="fold")
        table.add_column("instruction", overflow="fold")
        table.add_column("executed by warps", justify="right", overflow="fold")
        for name, total in columns.items():
            table.add_column(name, total, justify="right", overflow="fold")
        for site in row["details"]["sites"]:
            figures = (site.get(name.replace(" ", "_")) for name in columns)
            file = "" if site["file"] == f"{row['technique']}.cu" else site["file"]
            style = "red" if site.get("bank_conflicts") else None
            cells = ("" if figure is None else f"{figure:,}" for figure in figures)
            table.add_row(f"{file}:{site['line']}", site["mnemonic"], f"{site['executions']:,}", *cells, style=style)
        tables.append(table)
    return tables


def hardware_counters(rows: Rows) -> Table:
    """What ncu counted in a launch: bank conflicts by address, then the hardware's own counters."""
    columns = {
        "wavefronts": "memory_l1_wavefronts_shared",
        "registers": "launch__registers_per_thread",
        "warps active %": "sm__warps_active.avg.pct_of_peak_sustained_active",
        "L2 hits %": "lts__t_sector_hit_rate.pct",
        "bytes from DRAM": "dram__bytes_read.sum",
    }
    table = Table(*folding("technique", "backend", "problem", "bank conflicts", *columns), box=box.SIMPLE_HEAD)
    for row in rows:
        if row["status"] == "passed":
            metrics = row["details"]["metrics"]
            conflicts = row["details"].get("totals", {}).get("bank_conflicts")
            values = (conflicts, *(metrics.get(name) for name in columns.values()))
            cells = ("" if value is None else f"{value:,.6g}" for value in values)
            table.add_row(row["technique"], row["backend"], slug(row), *cells)
    return table


def gates(rows: Rows) -> RenderableType:
    """How many problems passed, failed or were declined, by technique and backend; below it the reasons."""
    rows = list(rows)
    tally: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        status = row["status"] if row["status"] in FINE else "failed"
        tally[name_of(row), row["backend"]][status] += 1
    table = Table(*folding("technique", "backend", "passed", "failed", "declined"), box=box.SIMPLE_HEAD)
    for key, counts in tally.items():
        numbers = [str(counts[status] or "") for status in ("passed", "failed", "unsupported")]
        table.add_row(*key, *numbers, style="red" if counts["failed"] else None)
    return Group(table, *declined(rows), *_labelled(rows), *_tried(rows))


def declined(rows: Rows) -> list[Text]:
    """Each reason for declining once, with the kernels that gave it; then what parameters a user's function may have,
    where it lacks one."""
    found = [row for row in rows if row.get("status") == "unsupported"]
    reasons = _of_kernels((row, row["reason"]) for row in found)
    lacking = {operators.of(problem_of(row)).calling for row in found if LACKS in row["reason"]}
    declining = [Text(f"declined: {reason}\n  by {kernels}") for reason, kernels in reasons.items()]
    return [*declining, *(Text(f"expected {calling}") for calling in lacking)]


def _labelled(rows: Rows) -> list[Text]:
    """Each label, such as "no LSE", with the kernels that have it."""
    labelled = ((row, label) for row in rows if (label := (row.get("details") or {}).get("label")))
    found = _of_kernels(
        (row, f"{label}{' (not returned, so not checked)' * bool(row.get('kernel'))}") for row, label in labelled
    )
    return [Text(f"{label}: {kernels}") for label, kernels in found.items()]


def _tried(rows: Rows) -> list[Text]:
    """What each kernel of the user's was tried on, and what not, of the problems that it passed."""
    passed: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        if row.get("kernel") and row["status"] == "passed":
            passed[row["kernel"]].append(problem_of(row))
    told: dict[str, list[str]] = defaultdict(list)
    for kernel, problems in passed.items():
        told[untried(problems)].append(kernel)
    return [Text(f"{text}\n  by {', '.join(kernels)}") for text, kernels in told.items()]


def untried(problems: Sequence[Any]) -> str:
    """The values that the fields of these problems have, and how many pairs of them are in none."""
    cells = [{**problem.to_dict()} for problem in problems]
    values = {name: sorted({cell[name] for cell in cells}) for name in cells[0]}
    missing = [
        f"{one} {first} with {other} {second}"
        for one, other in combinations(values, 2)
        for first, second in product(values[one], values[other])
        if not any((cell[one], cell[other]) == (first, second) for cell in cells)
        and any(_exists(problem, {one: first, other: second}) for problem in problems)
    ]
    tried = "; ".join(f"{name} {', '.join(map(str, found))}" for name, found in values.items())
    pairs = f", and {len(missing)} pairs of these, such as {missing[len(missing) // 2]}" if missing else ""
    return f"tried: {tried}\nnot tried: other values{pairs}"


def _exists(problem: Any, fields: dict[str, Any]) -> bool:
    try:
        return bool(replace(problem, **fields))
    except ValueError:
        return False


def _of_kernels(said: Iterable[tuple[Row, str]]) -> dict[str, str]:
    """Text -> the kernels whose rows say it, each once."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for row, text in said:
        found[text][" ".join(filter(None, (name_of(row), row["backend"])))] = None
    return {text: ", ".join(kernels) for text, kernels in found.items()}


def timings(rows: Rows) -> Table:
    """Median time and TFLOPS, fastest first within a problem; from the last group that timed a kernel."""
    table = Table(*folding("problem", "technique", "backend", "tile", "ms", "TFLOPS", ""), box=box.SIMPLE_HEAD)
    measured = {results.key(row): row for row in rows if results.what(row) == "timing"}.values()
    for row in sorted(measured, key=lambda row: (slug(row), statistics.median(row.get("samples_ms") or [1e9]))):
        names = (slug(row), name_of(row), row["backend"], tile_slug(row))
        if not row.get("samples_ms"):
            table.add_row(*names, "", "", f"{status_word(row)}: {row['reason']}", style="red")
            continue
        fault = "" if row["status"] == "passed" else f"{row['status']}: {row['reason']}"
        remark = ", ".join(filter(None, ((row.get("details") or {}).get("label"), fault)))
        table.add_row(*names, f"{median_ms(row):.4f}", f"{tflops(row):.1f}", remark)
    return table


def roofs(rows: Rows) -> Table:
    """What a multiprocessor does in a clock, a line for each roof."""
    names = ("flop", "exponentials", "instructions", "units", "TFLOPS", "GHz")
    columns = ("roof", *(f"{name}/clk" if name.islower() else name for name in names), "status")
    table = Table(
        *folding(*columns), title="Roofs, by multiprocessor and clock", title_justify="left", box=box.SIMPLE_HEAD
    )
    for row in rows:
        known = {**row.get("per_clock", {}), "TFLOPS": row.get("tflops"), "GHz": row.get("clock_ghz")}
        numbers = [f"{statistics.median(known[name]):.4g}" if known.get(name) else "" for name in names]
        table.add_row(row["roof"], *numbers, row["status"])
    return table


def failures(rows: Rows) -> list[str]:
    """What failed, in the words of the compiler, the gate or the CPU runtime, with the cells that share them."""
    alike: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("status", "passed") not in FINE:
            diagnosis = row.get("details", {}).get("diagnosis")
            head = f"{row['status']}: {name_of(row)} {row['backend']} {row.get('arch') or ''}"
            alone = _whole_cell(row) if diagnosis else ""
            alike[head, _indented(diagnosis or [_reason(row)]), alone].append(row)
    found = []
    for (head, said, _), same in alike.items():
        cells = list(dict.fromkeys(map(_whole_cell, same)))
        told = f"{head} {cells[0]}\n{said}" if len(cells) == 1 else f"{head.rstrip()}\n{said}\n  on {', '.join(cells)}"
        hint = f"\n{HOW_TO_DECLINE}" if any(map(_may_be_unsupported, same)) else _how_to_write(same[0])
        found.append(told + hint)
    return found


HOW_TO_DECLINE = "  if it does not support such lengths, its launch returns 801 (cudaErrorNotSupported)"


def _how_to_write(row: Row) -> str:
    """How a user's kernel is called where Python could not, where a module is missing, and what to build a .cu file for
    that does not build."""
    if not row.get("kernel"):
        return ""
    its = operators.of(problem_of(row))
    if row["status"] == "launch_error" and _reason(row).startswith("TypeError"):
        others = ", ".join(name for name in operators.names() if name != its.name)
        return f"\n  expected {its.calling}\n  `--operator` or `--problem` names another operator: {others}"
    if row["status"] == "import_error" and "No module named" in _reason(row):
        return f"\n  install it for {sys.executable}, or put it beside the kernel"
    if row["status"] == "compile_error":
        named = [name for name in operators.names() if f"{name.upper()}_" in row["reason"]]
        of = max(named, key=len, default=its.name)  # a name may begin with another one's
        if of != its.name:
            return f"\n  it was built for {its.name}; `--operator {of}` builds it for that one"
        if "static assert" in row["reason"]:
            return f"\n  it was built for the tile {tile_slug(row)}; `--tile` names another"
    return ""


def _may_be_unsupported(row: Row) -> bool:
    """True if a user's .cu file was built and then failed at lengths that its tile does not divide."""
    if not row.get("kernel") or not row.get("tile") or row["status"] in ("compile_error", "import_error", "data_race"):
        return False
    return problem_of(row).is_ragged(Tile.from_dict(row["tile"]))


def _reason(row: Row) -> str:
    """Without the case, which the line above names."""
    if "problem" not in row:
        return str(row["reason"])
    return str(row["reason"]).removeprefix(f"{case(row)}: ")


def _whole_cell(row: Row) -> str:
    """b1-h2-n128-d64-fp16-full 64x64-s1-w4, or the name of a roof."""
    return str(row["roof"]) if "roof" in row else f"{slug(row)} {tile_slug(row)}".rstrip()


def _indented(lines: Iterable[str]) -> str:
    """One line below the other, with a line for each warp of a deadlock and for the place of a diagnosis."""
    return "\n".join("  " + re.sub(r"[:;] (?=warps? \d)| (?=\[[^\[\]]*lane \d+\]$)", "\n    ", line) for line in lines)


def _cell(row: Row) -> str:
    """What a kernel is compiled for: the problem's words for it, and the tile."""
    return f"{problem_of(row).kernel} {tile_slug(row)}".rstrip()
