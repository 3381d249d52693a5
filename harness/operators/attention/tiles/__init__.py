"""Names that moved to harness.catalog.tiles."""

from pathlib import Path

from harness.catalog.tiles import Selection, best_tile, compared_with, pick, read, rename, update

FOLDER = Path(__file__).parent
__all__ = [
    "FOLDER",
    "Selection",
    "best_tile",
    "cell",
    "cell_of_length",
    "compared_with",
    "pick",
    "read",
    "rename",
    "update",
]


def cell(problem):
    return problem.cells[-1]


def cell_of_length(problem):
    return problem.cells[0]
