"""Kernels made wrong by one edit, and the names by which they are caught."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_kernels import cpu_build
from harness.catalog import techniques
from harness.measure import gate
from tests.support import chosen, cpu_run, proven

Table = Mapping[tuple[str, str | None], Sequence[tuple[Any, ...]]]
"""(technique, file of its operator's folder; None: its own) -> (name, right, wrong, caught), and a problem where it is
not the usual one. `caught`: the name of the CPU runtime's diagnosis, or of the gate's check."""


@dataclass(frozen=True)
class Edit:
    """`right` occurs once in the file and becomes `wrong`."""

    technique: str
    file: str | None
    name: str
    right: str
    wrong: str
    caught: str
    problem: Any

    def made(self, folder: Path) -> Path:
        """The root of a copy of the kernels with this edit."""
        root, operator = cpu_run.copied(folder), self.problem.operator
        own = f"{techniques.of_qualified(f'{operator}/{self.technique}').path}.cu"
        path = root / (f"{operator}/{self.file}" if self.file else own)
        text = path.read_text()
        assert text.count(self.right) == 1, "the kernel has changed: edit this test"
        path.write_text(text.replace(self.right, self.wrong))
        return root


def of(table: Table, usual: Any) -> list[Edit]:
    return [Edit(*of_file, *row[:4], *(row[4:] or [usual])) for of_file, rows in table.items() for row in rows]


def as_they_are(edits: Sequence[Edit], count: int) -> list[Any]:
    """(technique, problem) of each, to run without the edit: parameters of a test."""
    cells = sorted({(edit.technique, edit.problem) for edit in edits})
    return chosen.params(cells, lambda cell: proven.passed(f"{cell[1].operator}/{cell[0]}"), count)


def names(
    technique: str, problem: Any, distributions: Sequence[str], seeds: Sequence[int], root: Path = cpu_build.HERE
) -> Iterator[str]:
    """By which a kernel is caught in a gate for each seed of the scheduler; none for a right one.

    Tensors of one gate are kept, or the next one's might lie where they lay."""
    loaded, kept = cpu_run.build(technique, problem, root), []
    may_vary = not techniques.at(technique, problem).repeats
    for seed in seeds:
        launch = cpu_run.launcher(loaded, problem, seed)

        def keeping(tensors: Any, scalars: Any, launch: Any = launch) -> None:
            kept.append(dict(tensors))
            launch(tensors, scalars)

        options: dict[str, Any] = {"device": "cpu", "repeats": 1, "padded": True, "may_vary": may_vary}
        try:
            verdict = gate.gate(keeping, problem, distributions=distributions, **options)
        except cpu_run.Named as found:
            yield from (line.partition(":")[0] for line in str(found).splitlines())
        else:
            yield from [] if verdict.passed else [str(verdict.check)]
