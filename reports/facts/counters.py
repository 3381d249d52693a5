"""What a CUDA twin did when it ran: counted per instruction on a CPU, and by ncu on a GPU."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.operators.protocol import Problem
from harness.rows import reading
from reports.data.dataset import Dataset, Row

COUNTS = {
    "mma issued": ("mma_m", "wmma_mma", "wgmma_mma"),
    "ldmatrix issued": ("ldmatrix",),
    "cp.async issued": ("cp_async_cg", "cp_async_ca"),
    "bulk copies": ("cp_async_bulk_tensor", "cp_async_bulk_load", "cp_async_bulk_store"),
    "shuffles": ("shfl",),
    "waits at a barrier of the block": ("bar_sync",),
    "waits within a warp": ("bar_warp_sync",),
    "waits at the barrier of the cluster": ("barrier_cluster_wait",),
    "arrivals at a barrier without a wait": ("bar_arrive", "barrier_cluster_arrive"),
    "waits for cp.async groups": ("cp_async_wait",),
    "waits for groups of bulk stores": ("cp_async_bulk_wait",),
    "waits for groups of wgmma": ("wgmma_wait",),
    "waits on an mbarrier": ("mbarrier_try_wait", "mbarrier_test_wait"),
    "arrivals on an mbarrier": ("mbarrier_arrive",),
}
"""Name of a count -> how the mnemonics that it sums begin."""

IN_FLIGHT = {
    "bytes in flight at a wait for cp.async, of a warp": ("cp_async_wait", "bytes"),
    "bytes in flight at a wait for bulk stores, of a warp": ("cp_async_bulk_wait", "bytes"),
    "bytes in flight at a wait on an mbarrier, of a block": ("mbarrier_t", "bytes"),
    "groups in flight at a wait for wgmma, of a warp": ("wgmma_wait", "groups"),
}
"""Name -> how the mnemonics of the waits begin, and what of a site is told: the most at a wait's begin and return."""

PATHS = {
    "global_to_registers": "bytes, global memory to registers",
    "global_to_shared": "bytes, global to shared memory",
    "registers_to_shared": "bytes, registers to shared memory",
    "shared_to_registers": "bytes, shared memory to registers",
    "registers_to_global": "bytes, registers to global memory",
    "shared_to_global": "bytes, shared to global memory",
}

STALLED = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
MOST_STALLS = 4
WAITED_FOR = {
    "barrier": "a barrier",
    "branch resolve": "a branch",
    "dispatch stall": "the dispatcher",
    "gmma": "wgmma",
    "lg throttle": "global memory’s queue",
    "long scoreboard": "L2 or DRAM",
    "math pipe throttle": "a busy pipe",
    "membar": "a memory fence",
    "mio throttle": "shared memory’s queue",
    "no instruction": "the next instruction",
    "not selected": "another warp’s turn",
    "short scoreboard": "shared memory, exp2",
    "sleeping": "the end of a sleep",
    "wait": "instruction latency",
}
"""ncu's reasons why a warp did not issue, in plain words."""
CONFLICT_LINE = "of these, bank conflicts"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
LOAD_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
STORE_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
LDMATRIX, HMMA = "smsp__inst_executed_op_ldsm.sum", "sm__inst_executed_pipe_tensor_op_hmma.sum"
EXECUTED = "smsp__inst_executed.sum"
HIT_RATE = "lts__t_sector_hit_rate.pct"
L2_SECTORS, SECTOR_BYTES = "lts__t_sectors.sum", 32
DRAM_READ = "dram__bytes_read.sum"
NCU = {
    "gpu__time_duration.sum": "time under ncu, ns",
    CONFLICTS: "bank conflicts",
    LOAD_CONFLICTS: "bank conflicts of loads",
    STORE_CONFLICTS: "bank conflicts of stores",
    EXECUTED: "instructions executed",
    LDMATRIX: "ldmatrix executed",
    HMMA: "HMMA executed",
    "sm__inst_executed_pipe_tensor_op_gmma.sum": "HGMMA executed",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps active, % of the most",
    "sm__maximum_warps_per_active_cycle_pct": "warps that fit, % of the most",
    HIT_RATE: "L2 hit rate, %",
    DRAM_READ: "bytes read from DRAM",
    "dram__bytes_write.sum": "bytes written to DRAM",
    "launch__registers_per_thread": "registers a thread",
    "launch__shared_mem_per_block": "shared memory a block, bytes",
    "launch__waves_per_multiprocessor": "waves of blocks",
}
"""ncu's metrics that pages name, and what they are called there. Others are shown under their own names."""


def waited_for(reason: str) -> str:
    """What a warp waits for, in plain words; ncu's own where there are none."""
    return WAITED_FOR.get(reason, reason)


def stalls(row: Row) -> list[tuple[str, float]]:
    """The largest reasons why a warp did not issue, in cycles that warps waited for each issued instruction."""
    found = {
        hit[1].replace("_", " "): value
        for name, value in row["details"]["metrics"].items()
        if value is not None and (hit := STALLED.match(name))
    }
    return sorted(found.items(), key=lambda one: -one[1])[:MOST_STALLS]


@dataclass(frozen=True)
class Counted:
    """One run of a kernel with its counters."""

    row: Row
    where: str

    @property
    def sites(self) -> list[dict[str, Any]]:
        return self.row["details"]["sites"]

    @property
    def on_banks(self) -> list[dict[str, Any]]:
        """Sites whose lanes address shared memory, the worst first."""
        found = [site for site in self.sites if site.get("example_addresses")]
        return sorted(found, key=lambda site: (-site["bank_conflicts"], -site["wavefronts"], site["line"]))


def counted(datasets: Sequence[Dataset], technique: str, problem: Problem | None = None) -> Counted | None:
    """The newest run of the checkout's kernel on a CPU, of `problem` where one is given."""
    rows = [
        (data, row)
        for data, row in _rows(datasets, technique, "memory")
        if row["details"].get("sites") and (problem is None or reading.slug(row) == problem.slug)
    ]
    if not rows:
        return None
    data, row = max(rows, key=lambda item: item[1]["time"])
    return Counted(row, f"{data.origin} on a CPU by running the kernel, {row['time'][:10]}")


def profiled(datasets: Sequence[Dataset], technique: str, backend: str = "cuda") -> list[tuple[Row, str]]:
    """ncu's rows of the checkout's kernel, one per problem and tile, and where each was made."""
    rows = _rows(datasets, technique, "counters", backend)
    return [(row, data.provenance([row])) for data, row in rows if row["details"].get("metrics")]


def table(which: Counted, parent: Counted | None) -> list[tuple[str, str, str]]:
    """Lines (name, this kernel, its parent): bytes by path, instructions, conflicts, coalescing; without empty ones."""
    ours, theirs = _counts(which), _counts(parent) if parent else {}
    lines = [(name, count, theirs.get(name, "–")) for name, count in ours.items()]
    return [line for line in lines if {*line[1:]} - {"0", "–"} or line[0] == CONFLICT_LINE]


def _counts(which: Counted) -> dict[str, str]:
    totals = which.row["details"]["totals"]
    counts = {name: _count(totals["bytes"].get(path, 0)) for path, name in PATHS.items()}
    counts |= {name: _count(_executed(totals, starts)) for name, starts in COUNTS.items()}
    for name, (start, unit) in IN_FLIGHT.items():
        waits = [site for site in which.sites if site["mnemonic"].startswith(start) and f"{unit}_in_flight" in site]
        most = max(((site[f"{unit}_in_flight"], site[f"{unit}_left"]) for site in waits), default=())
        counts[name] = " → ".join(map(_count, most)) or "–"
    is_known = not _executed(totals, ("wmma_load",))  # which lane of it touches what is not documented
    for name, total in (("passes over the banks", "wavefronts"), (CONFLICT_LINE, "bank_conflicts")):
        counts[name] = _count(totals[total]) if is_known else "–"
    sectors = totals["sectors"]
    used = f"{100 * totals['least_sectors'] / sectors:.0f}%" if sectors else "–"
    return counts | {"share used of the sectors that lanes touched": used}


def _rows(datasets: Sequence[Dataset], technique: str, kind: str, backend: str = "cuda") -> list[tuple[Dataset, Row]]:
    return [
        (data, row)
        for data in datasets
        for row in data.of(kind, technique, backend)
        if row.status == "passed" and row.current
    ]


def _executed(totals: Mapping[str, Any], starts: tuple[str, ...]) -> int:
    return sum(count for mnemonic, count in totals["executions"].items() if mnemonic.startswith(starts))


def _count(value: int) -> str:
    return f"{value:,}".replace(",", "\u2009")
