"""What compute-sanitizer's tools say of each twin."""

from collections.abc import Sequence
from dataclasses import dataclass

from harness import operators
from harness.catalog import sources, techniques
from harness.catalog.entries import Technique
from reports.data.dataset import Dataset, Row, grouped, without_case


@dataclass(frozen=True)
class Sanitized:
    """What one tool says of one twin, over the problems that it was run on. `earlier`: of an earlier version."""

    rows: list[Row]
    earlier: bool

    @property
    def sees_all(self) -> bool:
        return sees_copies(self.rows[0])

    @property
    def passed(self) -> int:
        return sum(row["status"] == "passed" for row in self.rows)

    @property
    def launched(self) -> int:
        return sum(row["status"] != "unsupported" for row in self.rows)

    @property
    def program(self) -> str | None:
        """The technique whose program this twin is again: it ran once."""
        return (self.rows[0].get("details") or {}).get("same_program")

    @property
    def declined(self) -> list[str]:
        """Why the tool or the kernel cannot do some of the problems, each reason once."""
        declined = (str(row.get("reason")) for row in self.rows if row["status"] == "unsupported")
        return list(dict.fromkeys(without_case(reason) for reason in declined))

    @property
    def reasons(self) -> list[str]:
        """Of all that failed, each once: status and reason, then what the tool found."""
        failed = [row for row in self.rows if row["status"] not in ("passed", "unsupported")]
        reasons = [f"{row['status']}: {row.get('reason')}" for row in failed]
        found = [line for row in failed for line in (row.get("details") or {}).get("findings") or ()]
        told = "\n".join(reasons)
        return list(dict.fromkeys([*reasons, *(line for line in found if line not in told)]))


def sanitized(datasets: Sequence[Dataset], technique: Technique) -> dict[tuple[str, str], Sanitized]:
    """(backend, tool) -> what it says of the twin, of an earlier version if it was not run on this checkout's."""
    own = [data for data in datasets if data.operator.name == technique.operator]
    rows = [row for data in own for row in data.of("sanitizer", technique.name) if not planted_in(row)]
    current = grouped((row for row in rows if row.current), lambda row: (row.backend, row.tool))
    every = grouped(rows, lambda row: (row.backend, row.tool))
    return {name: Sanitized(current.get(name, every[name]), name not in current) for name in every}


def sees_copies(row: Row) -> bool:
    """Racecheck watches loads and stores of threads and cp.async.bulk, not what TMA writes by a tensor map."""
    technique = techniques.find(f"{row.get('operator') or operators.FIRST}/{row['technique']}")
    return row["tool"] != "racecheck" or not (
        technique and any(path.name == "tensor_map.cuh" for path in sources.files("cuda", technique.path))
    )


def planted_in(row: Row) -> str | None:
    return (row.get("details") or {}).get("planted")
