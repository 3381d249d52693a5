"""What every row says of its subject and of its machine, in one place. Standard library only."""

from collections.abc import Mapping
from typing import Any

from harness.catalog.cases import Case
from harness.rows import results


def environment(description: Mapping[str, Any], on: str) -> dict[str, Any]:
    """The first row of a run: `description` is environment.describe()."""
    return {"kind": "environment", "id": results.environment_id(description), "on": on, "details": dict(description)}


def about(case: Case, *, on: str, source_sha256: str | None, **fields: Any) -> dict[str, Any]:
    """A row about `case`; what does not apply (None) is absent."""
    row = {
        "on": on,
        "operator": case.problem.operator,
        "experiment": case.experiment,
        "technique": case.technique,
        "backend": case.backend,
        "kernel": case.kernel and case.kernel.name,
        "problem": case.problem.to_dict(),
        "tile": case.tile and case.tile.to_dict(),
        "source_sha256": source_sha256,
        **fields,
    }
    return {name: value for name, value in row.items() if value is not None}
