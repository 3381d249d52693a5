"""What inputs of 8 bits would cost in exactness, from the row that computed it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from reports.data.dataset import Dataset, Row

Errors = Mapping[str, Mapping[str, float]]
"""Distribution -> column -> error over the norm of O."""


def row(datasets: Iterable[Dataset]) -> Row | None:
    """The newest of kind fp8."""
    found = [row for data in datasets for row in data.newest if row["kind"] == "fp8" and row["status"] == "passed"]
    return max(found, key=lambda row: str(row["time"]), default=None)


def percent(value: float) -> str:
    """Two digits that count: 4.4%, 0.18%, 19%; what is below a millionth is 0."""
    return f"{float(f'{100 * value:.2g}'):g}%" if value >= 1e-6 else "0"


def sentences(row: Row) -> list[str]:
    """What the table says, in words."""
    errors: Errors = row["numerics"]
    sixteen, eight = ([of[column] for of in errors.values()] for column in ("bf16", "tensor"))
    told = [
        f"Inputs of 8 bits alone change O by {percent(min(eight))} to {percent(max(eight))} of its norm. The roundings "
        f"of a 16-bit kernel change it by {percent(min(sixteen))} to {percent(max(sixteen))}."
    ]
    for what, before, after in (
        ("A scale for each block of rows in place of one for the tensor", "tensor", "block"),
        ("A rotation of Q and K", "block", "rotated"),
        ("A factor on P before it is rounded", "p", "p_scaled"),
        ("What tensor cores cut off their sums", "p_scaled", "sums"),
    ):
        told.append(f"{what} {_moves(errors, before, after)}.")
    return told


def _moves(errors: Errors, before: str, after: str) -> str:
    """Where a column is furthest below the one before it, and where furthest above."""
    places = {name: of[after] / of[before] for name, of in errors.items() if min(of[before], of[after]) >= 1e-6}
    parts = []
    for verb, pick in (("helps most on", min), ("hurts most on", max)):
        name = _place(places, pick)
        if name and (places[name] < 1) == (pick is min):
            change = f"{percent(errors[name][before])} becomes {percent(errors[name][after])}"
            parts.append(f"{verb} “{name.replace('_', ' ')}” ({change})")
    return " and ".join(parts) or "changes little"


def _place(places: Mapping[str, float], pick: Callable[..., str]) -> str | None:
    """The distribution with the smallest or largest ratio, if that is 10% away from none."""
    name = pick(places, key=lambda name: places[name]) if places else None
    return name if name and abs(places[name] - 1) > 0.1 else None
