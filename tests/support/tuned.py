"""The tiles that `tune` chose for the flagship, on every GPU that has a table."""

from harness.catalog import tiles
from harness.catalog.entries import Tile
from harness.operators.attention.api import FLAGSHIP


def tuned() -> list[tuple[int, bool, Tile]]:
    """(head_dim, causal, tile) of the kernels that the tables choose."""
    found = set()
    for path in tiles.folder("attention").glob("*.toml"):
        for one in tiles.read(path):
            if (one.technique, one.backend) == (FLAGSHIP.name, "cuda"):
                head_dim, mask = one.cell.split("-")[:2]
                found.add((int(head_dim.removeprefix("d")), mask == "causal", one.tile))
    return sorted(found)
