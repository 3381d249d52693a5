"""Rows of earlier runs that a new run need not make again: the same kernels, compilers and machine. Standard library
only."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.rows import reading, results, schema

Row = dict[str, Any]


class ReusableRows:
    """The newest row about each case that passed or was declined, and the environments that these rows name."""

    def __init__(self, runs: Iterable[Path], description: Mapping[str, Any], hashes: reading.Hashes) -> None:
        """`description` is environment.describe() of this machine, `hashes` those of this checkout's kernels. Cases
        that failed are tried again."""
        self.environments: list[Row] = []
        self._by_key: dict[str, Row] = {}
        for path in runs:
            rows = results.read(path, schema.check)
            alike = {row["id"]: row for row in rows if row["kind"] == "environment" and _same(row, description)}
            for row in rows:
                usable = row.get("environment") in alike and row["status"] in ("passed", "unsupported")
                if usable and reading.is_of_checkout(row, hashes):
                    name = results.key(row)
                    if name not in self._by_key or row["time"] >= self._by_key[name]["time"]:
                        self._by_key[name] = row
            self.environments += alike.values()

    @property
    def rows(self) -> list[Row]:
        return list(self._by_key.values())

    def find(self, row: Row) -> Row | None:
        """The newest row about what `row`, of which only the fields of results.KEY count, is about."""
        return self._by_key.get(results.key(row))


def _same(environment: Row, description: Mapping[str, Any]) -> bool:
    return _machine(environment["details"]) == _machine(description)


def _machine(details: Mapping[str, Any]) -> dict[str, Any]:
    """What can change a row, kernels apart."""
    gpu, system = details.get("gpu") or {}, details.get("system") or {}
    return {
        "gpu": [gpu.get(name) for name in ("name", "driver")],
        "system": [system.get(name) for name in ("os", "cpu", "cxx")],
        **{name: details.get(name) for name in ("software", "toolchain", "variables")},
    }
