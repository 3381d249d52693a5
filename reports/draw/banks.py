"""Lanes on the banks of shared memory, drawn from the addresses that a kernel used when it ran on a CPU.

Shared memory has 32 banks of 4 bytes. A warp's access goes in phases: all 32 lanes for up to 4 bytes a lane, 16 for
8 bytes, 8 for 16 bytes (each 8x8 matrix of ldmatrix is one; 16 lanes where neighbours read the same). A phase takes as
many passes as the bank that most distinct words fall into; every pass beyond the first is a conflict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

BANKS, BANK_BYTES, LANES, WIDEST = 32, 4, 32, 16
CELL, ROW, GAP, LEFT, RIGHT, TOP, BOTTOM = 9, 5, 7, 76, 66, 6, 32
"""Of a drawing: a bank's width, a lane's height, the space between phases, the margins."""


@dataclass(frozen=True)
class Phase:
    """The lanes that go together. `words`: per lane its first word's index and how many it takes."""

    lanes: tuple[int, ...]
    words: tuple[tuple[int, int], ...]

    def degree(self, bank: int) -> int:
        """How many distinct words of the bank the phase needs."""
        return len(
            {word for first, count in self.words for word in range(first, first + count) if word % BANKS == bank}
        )

    @property
    def passes(self) -> int:
        return max(map(self.degree, range(BANKS)))

    @property
    def of_lanes(self) -> str:
        first, last = self.lanes[0], self.lanes[-1]
        return f"lane {first}" if first == last else f"lanes {first}–{last}"


def phases(addresses: Sequence[int | None], width: int) -> list[Phase]:
    """`addresses`: of the 32 lanes, bytes, None where a lane takes no part; `width`: bytes a lane."""
    found, first = [], 0
    while first < LANES:
        size = LANES if width <= BANK_BYTES else LANES * BANK_BYTES // width
        half = addresses[first : first + LANES // 2]
        if width == WIDEST and first % (LANES // 2) == 0 and _neighbours_share(half):
            size = LANES // 2
        taking = [(lane, at) for lane in range(first, first + size) if (at := addresses[lane]) is not None]
        if taking:
            count = max(1, width // BANK_BYTES)
            found.append(Phase(tuple(lane for lane, _ in taking), tuple((at // BANK_BYTES, count) for _, at in taking)))
        first += size
    return found


def picture(site: Mapping[str, Any]) -> Markup:
    """SVG of a site's example: banks to the right, lanes downwards, a phase a block, colour for the degree."""
    parts, top = [], TOP
    for phase in phases(site["example_addresses"], site["width"]):
        height = ROW * len(phase.lanes)
        parts.append(
            f'<rect class="bed" x="{LEFT}" y="{top}" width="{BANKS * CELL}" height="{height}"/>'
            f'<text x="{LEFT - 6}" y="{top + height / 2 + 4:g}" text-anchor="end">{phase.of_lanes}</text>'
            f'<text x="{LEFT + BANKS * CELL + 6}" y="{top + height / 2 + 4:g}">{phase.passes} '
            f"{'pass' if phase.passes == 1 else 'passes'}</text>"
        )
        degrees = [phase.degree(bank) for bank in range(BANKS)]
        for row, (first, count) in enumerate(phase.words):
            worst = max(degrees[word % BANKS] for word in range(first, first + count))
            parts.append(_lane(first % BANKS, count, top + row * ROW, worst))
        top += height + GAP
    bottom = top - GAP
    for bank in range(0, BANKS + 1, 8):
        x = LEFT + bank * CELL
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom + 3}"/>')
        anchor = "end" if bank == BANKS else "start"
        name = {0: "bank 0", BANKS: str(BANKS - 1)}.get(bank, str(bank))
        parts.append(f'<text x="{x}" y="{bottom + 15}" text-anchor="{anchor}">{name}</text>')
    size = f"{LEFT + BANKS * CELL + RIGHT} {bottom + BOTTOM - 10}"
    return Markup(f'<svg role="img" class="banks" viewBox="0 0 {size}">{"".join(parts)}</svg>')


def _neighbours_share(half: Sequence[int | None]) -> bool:
    """Does every lane need the same as lane ^ 1, or every lane the same as lane ^ 2?"""
    return any(all(half[lane] == half[lane ^ distance] for lane in range(len(half))) for distance in (1, 2))


def _lane(bank: int, count: int, y: int, degree: int) -> str:
    """A lane's words, wrapped where they pass the last bank."""
    first = min(count, BANKS - bank)
    boxes = [(bank, first)] + ([(0, count - first)] if count > first else [])
    way = next(least for least in (8, 4, 2, 1) if degree >= least)
    return "".join(
        f'<rect class="way{way}" x="{LEFT + start * CELL + 0.5:g}" y="{y + 0.5:g}" '
        f'width="{length * CELL - 1}" height="{ROW - 1}"/>'
        for start, length in boxes
    )
