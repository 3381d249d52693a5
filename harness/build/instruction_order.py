"""In which order instructions stand in a kernel's main loop: what runs while a product is in flight, what in a lock.

The order of a source, and that of PTX, say what was asked for; this reads what the assembler made of it, from the
listing of cuobjdump. A loop is what stands from the target of a backward branch to the branch. The assembler rotates
loops: a wait at the head may belong to the step before. So a loop is walked as a ring, and what its first pass leaves
in flight is there in the second. Standard library only.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

KINDS = {
    "exponentials": ("MUFU.EX2",),
    "maxima": ("FMNMX", "VIMNMX"),
    "shuffles": ("SHFL",),
    "conversions": ("F2FP",),
}
"""What an online softmax is made of: kind -> how the opcodes begin."""

_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?\w+)\s+)?([A-Z]\w*(?:\.\w+)*)\s*([^;]*);")
_STRUCTURE = {
    "HGMMA": "wgmma",
    "HMMA": "mma",
    "WARPGROUP.DEPBAR": "wait",
    "BAR.SYNC": "bar.sync",
    "BAR.ARV": "bar.arrive",
    "SYNCS.PHASECHK": "mbarrier wait",
    "SYNCS.ARRIVE": "mbarrier arrive",
    "UTMALDG": "tma load",
    "MEMBAR.ALL.GPU": "fence of the GPU",
    "LDL": "local load",
    "STL": "local store",
}
"""What the order of a softmax is told by, and what a sequence calls it."""


@dataclass(frozen=True)
class Instruction:
    """`opcode` with its modifiers, such as WARPGROUP.DEPBAR.LE; `operands` as they are printed."""

    address: int
    opcode: str
    operands: str

    def is_a(self, *names: str) -> bool:
        """Whether the opcode begins with one of the names."""
        return self.opcode.startswith(names)

    @property
    def target(self) -> int | None:
        if not self.is_a("BRA"):
            return None
        found = re.search(r"0x([0-9a-f]+)", self.operands)
        return int(found[1], 16) if found else None


Code = Sequence[Instruction]


def functions(sass: str) -> list[list[Instruction]]:
    """The instructions of each function of a listing, but for those that do nothing: NOP and predicate @!PT."""
    found: list[list[Instruction]] = []
    for line in sass.splitlines():
        if line.lstrip().startswith("Function :"):
            found.append([])
        elif (match := _LINE.match(line)) and match[2] != "!PT" and match[3] != "NOP":
            if not found:
                found.append([])
            found[-1].append(Instruction(int(match[1], 16), match[3], match[4].strip()))
    return found


def loops(code: Code) -> list[list[Instruction]]:
    """The loops of a function: for each target of backward branches, everything up to the last of them."""
    ends = {one.target: one.address for one in code if one.target is not None and one.target <= one.address}
    return [[one for one in code if start <= one.address <= end] for start, end in ends.items()]


def main_loop(sass: str) -> list[Instruction] | None:
    """The shortest innermost loop that has tensor-core products and at least eight exponentials: the steps without a
    mask, where these have a loop of their own. None where no loop has both."""
    found = []
    for code in functions(sass):
        both = [
            loop
            for loop in loops(code)
            if any(one.is_a("HGMMA", "HMMA") for one in loop) and sum(one.is_a("MUFU.EX2") for one in loop) >= 8
        ]
        addresses = [{one.address for one in loop} for loop in both]
        found += [loop for loop, own in zip(both, addresses, strict=True) if not any(one < own for one in addresses)]
    return min(found, key=len, default=None)


def count(loop: Iterable[Instruction]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in loop:
        counts.update(kind for kind, names in KINDS.items() if one.is_a(*names))
    return {kind: counts[kind] for kind in KINDS}


def under_products(loop: Code) -> list[Instruction]:
    """Those that are issued while a wgmma of the same warpgroup is in flight: behind it, and before a wait that leaves
    no group of products unfinished."""
    found: list[Instruction] = []
    groups, is_open = 0, False
    for second_time in (False, True):
        for one in loop:
            if one.is_a("HGMMA"):
                is_open = "gsb0" not in one.operands
                groups += not is_open
            elif (left := _groups_left(one)) is not None:
                groups = min(groups, left)
            elif second_time and (groups or is_open):
                found.append(one)
    return found


def in_lock(loop: Code) -> Code | None:
    """Those between a wait at a named barrier and the next arrival, which lets another warpgroup in, round the ring;
    None without both."""
    if not all(any(one.is_a(name) for one in loop) for name in ("BAR.SYNC", "BAR.ARV")):
        return None
    found: list[Instruction] = []
    inside = False
    for second_time in (False, True):
        for one in loop:
            if one.is_a("BAR.SYNC", "BAR.ARV"):
                inside = one.is_a("BAR.SYNC")
            elif second_time and inside:
                found.append(one)
    return found


def is_serialized(loop: Code) -> bool:
    """Whether every wgmma is a group of its own, as ptxas makes them when it cannot keep several in flight."""
    products = [one for one in loop if one.is_a("HGMMA")]
    return len(products) > 2 and all("gsb0" in one.operands for one in products)


def setmaxnreg(sass: str) -> list[int]:
    """The numbers of registers a thread that setmaxnreg asks for, in ascending order."""
    found = [
        re.search(r"0x([0-9a-f]+)", one.operands) for code in functions(sass) for one in code if one.is_a("USETMAX")
    ]
    return sorted({int(number[1], 16) for number in found if number})


def sequence(loop: Code) -> str:
    """The loop in one line: products, waits and barriers in order, and between them how much of a softmax stands there,
    such as "8 wgmma, wait 1, (62 max, 4 shfl), wait 0"."""
    short = {"exponentials": "ex2", "maxima": "max", "shuffles": "shfl", "conversions": "cvt"}

    def is_structure(one: Instruction) -> bool:
        return one.is_a(*_STRUCTURE)

    parts = []
    shown = [one for one in loop if is_structure(one) or any(count([one]).values())]
    for structure, part in groupby(shown, is_structure):
        if structure:
            for name, same in groupby(map(_called, part)):
                number = sum(1 for _ in same)
                parts.append(f"{number} {name}" if number > 1 or "wgmma" in name else name)
        else:
            parts.append("(" + ", ".join(f"{n} {short[kind]}" for kind, n in count(part).items() if n) + ")")
    return ", ".join(parts)


def read(sass: str) -> dict[str, Any] | None:
    """The `main_loop` of a row's `code`, for kernels with wgmma; None for others.

    {instructions, products, serialized, local_memory (loads and stores), all, under_products and in_lock (each a count
    of KINDS; in_lock None without named barriers), sequence}.
    """
    loop = main_loop(sass)
    if loop is None or not any(one.is_a("HGMMA") for one in loop):
        return None
    lock = in_lock(loop)
    return {
        "instructions": len(loop),
        "products": sum(one.is_a("HGMMA") for one in loop),
        "serialized": is_serialized(loop),
        "local_memory": sum(one.is_a("LDL", "STL") for one in loop),
        "all": count(loop),
        "under_products": count(under_products(loop)),
        "in_lock": lock and count(lock),
        "sequence": sequence(loop),
    }


def _groups_left(one: Instruction) -> int | None:
    """How many groups of products a wait leaves unfinished; None for what is no such wait."""
    found = re.search(r"gsb0, 0x([0-9a-f]+)", one.operands) if one.is_a("WARPGROUP.DEPBAR") else None
    return int(found[1], 16) if found else None


def _called(one: Instruction) -> str:
    name = next(called for opcode, called in _STRUCTURE.items() if one.is_a(opcode))
    left = _groups_left(one)
    return name if left is None else f"{name} {left}"
