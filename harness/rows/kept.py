"""Fresh rows that a new run need not make again: nothing that made them has changed. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.rows import reading, results, schema

Row = dict[str, Any]
GOOD = ("passed", "unsupported")
"""Statuses of rows that stand."""


class Kept:
    """The newest row about each thing, and the environments that they name."""

    def __init__(self, runs: Iterable[Path], description: Mapping[str, Any], hashes: reading.Hashes) -> None:
        """What passed or was declined, of this checkout's kernels (`hashes`), with the machine, compilers, libraries
        and harness of `description`, which is environment.describe(). The rest is tried again."""
        self.environments: list[Row] = []
        self._by_key: dict[str, Row] = {}
        for path in runs:
            rows = results.read(path, schema.check)
            alike = {
                row["id"]: row
                for row in rows
                if row["kind"] == "environment" and _made_by(row["details"]) == _made_by(description)
            }
            for row in rows:
                if row.get("environment") in alike and row["status"] in GOOD and reading.is_of_checkout(row, hashes):
                    name = results.key(row)
                    if name not in self._by_key or row["time"] >= self._by_key[name]["time"]:
                        self._by_key[name] = row
            self.environments += alike.values()

    @property
    def rows(self) -> list[Row]:
        return list(self._by_key.values())

    def find(self, row: Row) -> Row | None:
        """The newest row about what `row`, which need have nothing but its key, is about."""
        return self._by_key.get(results.key(row))


def _made_by(details: Mapping[str, Any]) -> dict[str, Any]:
    """What else but a kernel's sources may change its rows."""
    gpu, system = details.get("gpu") or {}, details.get("system") or {}
    return {
        "gpu": [gpu.get(name) for name in ("name", "driver")],
        "system": [system.get(name) for name in ("os", "cpu", "cxx")],
        **{name: details.get(name) for name in ("software", "toolchain", "variables", "harness")},
    }
