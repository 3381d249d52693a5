"""A kernel library that `cpu_build` made, loaded: how it runs, what it did wrong, what it counted."""

from __future__ import annotations

import ctypes
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Library:
    """`launch` and `shared_memory_bytes` are the functions that a GPU build exports too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        handle = ctypes.CDLL(str(path))
        self.handle = handle
        self.launch = handle.launch
        self.shared_memory_bytes: int = handle.shared_memory_bytes()
        handle.configure.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_int, ctypes.c_int]
        handle.diagnosis.restype = ctypes.c_char_p
        handle.counters.restype = ctypes.c_char_p
        handle.watch.argtypes = [
            *(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int),
            *(ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64), ctypes.c_int, ctypes.c_int),
        ]

    def configure(self, *, seed: int = 0, checks: bool = True, counters: bool = False, os_threads: int = 0) -> None:
        """How this library runs from now on.

        `seed` orders warps, lanes and blocks; 0 is the plain order. `checks` looks for races, reads before writes and
        accesses outside the watched tensors; `counters` counts per instruction site. `os_threads` 0: all that the
        machine has.
        """
        self.handle.configure(seed, checks, counters, os_threads)

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
        """Watches no tensor any more."""
        self.handle.forget()

    def diagnosis(self) -> str:
        """What the last launch did wrong, one `name: text [place]` per line; empty when nothing."""
        return self.handle.diagnosis().decode()

    def counters(self) -> list[dict[str, Any]]:
        """What the launches since the last `configure` counted: one dict per instruction site, in source order.

        `file`, `line`, `column`, `mnemonic`: the wrapper call. `executions` by warps and `lanes` in them. Where data
        moves: its `path`, `width` (bytes per lane), `bytes`; in shared memory `wavefronts` (passes over the 32 banks)
        and `bank_conflicts` (passes beyond the least), with `example_addresses` of the 32 lanes (bytes from the start
        of shared memory, None: took no part) in one execution with the most conflicts; in global memory `sectors` of
        32 bytes and `least_sectors`, as many as the bytes would fill.
        """
        return json.loads(self.handle.counters().decode())


def totals(sites: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over the sites of one kernel: bank conflicts, wavefronts, sectors, bytes by path, executions by mnemonic."""
    sums: dict[str, Any] = {
        name: sum(site.get(name, 0) for site in sites)
        for name in ("bank_conflicts", "wavefronts", "sectors", "least_sectors")
    }
    paths, mnemonics = Counter[str](), Counter[str]()
    for site in sites:
        mnemonics[site["mnemonic"]] += site["executions"]
        if "bytes" in site:
            paths[site["path"]] += site["bytes"]
    return {**sums, "bytes": dict(paths), "executions": dict(mnemonics)}
