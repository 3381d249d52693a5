"""A kernel library that `cpu_build` made, loaded: how it runs, what it did wrong, what it counted."""

from __future__ import annotations

import ctypes
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_kernels.build import NO_LAUNCH, CompileError
from cuda_kernels.cpu_build import line_of, sanitizing


class Library:
    """`launch` and `shared_memory_bytes` are what a GPU build exports too; the second is 0 where a kernel exports none.
    Raises CompileError for a file without `launch`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        handle = ctypes.CDLL(str(path))
        self.handle = handle
        if not hasattr(handle, "launch"):
            raise CompileError(NO_LAUNCH)
        self.launch = handle.launch
        self.shared_memory_bytes: int = handle.shared_memory_bytes() if hasattr(handle, "shared_memory_bytes") else 0
        handle.configure.argtypes = [ctypes.c_uint64, *[ctypes.c_int] * 4]
        handle.diagnosis.restype = ctypes.c_char_p
        handle.counters.restype = ctypes.c_char_p
        handle.watch.argtypes = [
            *(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int),
            *(ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64), ctypes.c_int, ctypes.c_int),
        ]

    def configure(
        self,
        *,
        seed: int = 0,
        checks: bool = True,
        counters: bool = False,
        os_threads: int = 0,
        patience: float = 20.0 if sanitizing() else 2.0,
    ) -> None:
        """How this library runs from now on.

        `seed` orders warps, lanes and blocks; 0 is the plain order. `checks` looks for races, reads before writes and
        accesses outside the watched tensors; `counters` counts per instruction site. `os_threads` 0: all that the
        machine has. A block that spends `patience` seconds of processor time without reaching global memory that is new
        to it goes on for ever, and is told of; a tile takes a right kernel milliseconds.
        """
        self.handle.configure(seed, checks, counters, os_threads, round(patience * 1000))

    def watch(
        self,
        name: str,
        pointer: int,
        element_bytes: int,
        sizes: Sequence[int],
        strides: Sequence[int],
        *,
        written: bool,
        scratch: bool = False,
    ) -> None:
        """Tells where a tensor lies, for every launch until `forget`; sizes and strides in elements.

        Once one tensor is watched, an access that is in none is a diagnosis; so is an element of a `written` tensor
        that a launch leaves unwritten or writes twice, and any write to another tensor but a `scratch` one.
        """
        array = ctypes.c_int64 * len(sizes)
        self.handle.watch(
            name.encode(),
            pointer,
            element_bytes,
            array(*sizes),
            array(*strides),
            len(sizes),
            2 if scratch else int(written),
        )

    def forget(self) -> None:
        """The launch, of one grid or several, is over: diagnoses what it left unwritten, and watches no tensor any
        more."""
        self.handle.forget()

    def diagnosis(self) -> str:
        """What the last launch did wrong, one `name: text [place]` per line; empty when nothing."""
        return re.sub(r"\+0x([0-9a-f]+)", self._line, self.handle.diagnosis().decode())

    def _line(self, offset: re.Match[str]) -> str:
        return line_of(self.path, int(offset[1], 16)) or offset[0]

    def counters(self) -> list[dict[str, Any]]:
        """What the launches since the last `configure` counted: one dict per instruction site, in source order.

        `file`, `line`, `column`, `mnemonic`: the wrapper call. `executions` by warps and `lanes` in them. At a wait for
        copies or groups of products: the most that were in flight when it began (`bytes_in_flight`,
        `groups_in_flight`) and when it returned (`bytes_left`, `groups_left`): a warp's for cp.async, bulk stores and
        wgmma, the block's bulk loads for an mbarrier. Copies land as late as waits allow. Where data moves: its
        `path`, `width` (bytes per lane; of a bulk copy or a wmma fragment, all), `bytes`; in shared memory
        `wavefronts` (passes over the 32 banks) and `bank_conflicts` (passes beyond the least), with
        `example_addresses` of the 32 lanes (bytes from the start of shared memory, None: took no part) in one execution
        with the most conflicts; in global memory `sectors` of 32 bytes and `least_sectors`, as many as the bytes would
        fill.
        """
        return json.loads(self.handle.counters().decode())


RACES = ("race", "copy_in_flight")
"""Diagnoses of two accesses to one place that nothing orders."""
_SITE = re.compile(r"([\w.]+\.cuh?):(\d+)")
_ACCESS = re.compile(
    r"\b((?:ld_shared|st_shared|ldmatrix|stmatrix|cp_async|wgmma_mma|wmma_load|wmma_store)\w*)[^;(]*\("
)


def with_buffers(diagnoses: Sequence[str], files: Sequence[Path]) -> list[str]:
    """The diagnoses, races first, each with what the kernel calls the buffer at the shared address that it names. The
    name is read from the lines of `files` (the kernel and what it includes) that touch the address."""
    lines = {path.name: path.read_text().splitlines() for path in files}
    found = []
    for diagnosis in diagnoses:
        calls = ("\n".join(lines.get(file, [])[int(line) - 1 :][:4]) for file, line in _SITE.findall(diagnosis))
        every = list(dict.fromkeys(name for call in calls for name in _buffers(call)))
        names = [name for name in every if name != "smem"] or every  # `smem` is what helpers call any of them
        named = f"{' or '.join(names)} (\\g<0>)" if names else r"\g<0>"
        found.append(re.sub(r"shared address 0x[0-9a-f]+", named, diagnosis, count=1))
    return sorted(found, key=lambda one: one.partition(":")[0] not in RACES)


def _buffers(call: str) -> list[str]:
    """What the first access of these lines calls the shared memory that it touches: `k_smem` of `k_smem + 128`."""
    access = _ACCESS.search(call)
    if access is None:
        return []
    depth, arguments = 1, [""]
    for character in call[access.end() :]:
        depth += (character in "([{") - (character in ")]}")
        if not depth:
            break
        if depth == 1 and character == ",":
            arguments.append("")
        else:
            arguments[-1] += character
    if access[1].startswith(("ldmatrix", "wgmma_mma", "wmma_load")):  # these name the registers first
        arguments = [one for one in arguments[1:] if "regs" not in one]
    if not access[1].startswith("wgmma_mma"):  # which has two operands
        arguments = arguments[-1:] if access[1].startswith("cp_async_bulk_tensor_store") else arguments[:1]
    plain = (re.sub(r"<[^<>()]*>", "", one) for one in arguments)
    named = (re.search(r"\b[A-Za-z_][\w.]*\b(?!\()", one) for one in plain)
    return [found[0] for found in named if found]


def totals(sites: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over the sites of one kernel: bank conflicts, wavefronts and the least of them, sectors and the least of
    them, bytes by path, executions (of a warp) by mnemonic, among them every mma and every wait at a barrier."""
    sums: dict[str, Any] = {
        name: sum(site.get(name, 0) for site in sites)
        for name in ("bank_conflicts", "wavefronts", "sectors", "least_sectors")
    }
    sums["least_wavefronts"] = sums["wavefronts"] - sums["bank_conflicts"]
    paths, mnemonics = Counter[str](), Counter[str]()
    for site in sites:
        mnemonics[site["mnemonic"]] += site["executions"]
        if "bytes" in site:
            paths[site["path"]] += site["bytes"]
    return {**sums, "bytes": dict(paths), "executions": dict(mnemonics)}


def ncu_metrics(sites: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What Nsight Compute should count for the same problem on a GPU: metric -> value, summed over the whole launch.

    The instructions are those of the source. ldmatrix and cp.async are the compiler's too, one for one, so their
    figures can be held to equality. Plain loads and stores may be merged, split, hoisted or dropped by it, and
    nvcuda::wmma chooses its own: where it moves data, nothing is said of shared memory. A wmma_mma is two HMMA.

    Both sides count a wavefront per pass over the 32 banks: 1 per 8x8 matrix of an ldmatrix without conflicts (4 for
    .x4), 1, 2 or 4 for 4, 8 or 16 bytes a lane, 2 for 16 bytes that neighbours share. A bank conflict is a wavefront
    beyond these. The names with `sass` and memory_l1_* come from the addresses of the instructions, as ours do. Those
    of the hardware's own counters, l1tex__data_*, also hold passes that were repeated because something else used the
    same memory, so they may be larger; their _op_ld holds plain loads and ldmatrix together. No name counts bulk copies
    or operands of wgmma.
    """
    mnemonics = {
        "ldsm": "ldmatrix_",
        "ld": "ld_shared",
        "st": "st_shared",
        "stsm": "stmatrix_",
        "ldgsts": "cp_async_cg_",
    }
    families = {
        family: [site for site in sites if site["mnemonic"].startswith(start) and "cluster" not in site["mnemonic"]]
        for family, start in mnemonics.items()
    }
    sums = totals(sites)
    mma, wmma = (
        sum(count for name, count in sums["executions"].items() if name.startswith(start))
        for start in ("mma_m16n8k", "wmma_mma_")
    )
    hmma = {"sm__inst_executed_pipe_tensor_op_hmma.sum": mma + 2 * wmma}
    if wmma:
        return hmma
    found = {}
    for family, members in families.items():
        conflicts, passes = (sum(site[name] for site in members) for name in ("bank_conflicts", "wavefronts"))
        found[f"smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_{family}.sum"] = conflicts
        found[f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{family}.sum"] = passes
        name = family if family in ("ldsm", "ldgsts") else f"shared_{family}"
        found[f"smsp__inst_executed_op_{name}.sum"] = sum(site["executions"] for site in members)
    for family, members in {"ld": families["ld"] + families["ldsm"], "st": families["st"] + families["stsm"]}.items():
        conflicts, passes = (sum(site[name] for site in members) for name in ("bank_conflicts", "wavefronts"))
        found[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{family}.sum"] = conflicts
        found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{family}.sum"] = passes
    return {
        **found,
        "memory_l1_wavefronts_shared": sums["wavefronts"],
        "memory_l1_wavefronts_shared_ideal": sums["least_wavefronts"],
        **hmma,
    }
