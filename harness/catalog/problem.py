"""Until every branch has landed: problems are in harness.operators, tiles and experiments in catalog.entries."""

from harness.catalog.entries import MODES, Experiment, Tile
from harness.operators.attention.problem import ALL_PEERS, ANCHOR, DTYPES, LAYOUTS, PEERS, Problem

__all__ = ["ALL_PEERS", "ANCHOR", "DTYPES", "LAYOUTS", "MODES", "PEERS", "Experiment", "Problem", "Tile"]
