"""Kernels made wrong by one edit, and the names by which they are caught."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from cuda_kernels.cpu_library import Library
from harness.catalog import techniques
from harness.measure import gate
from tests.support import cpu_run, together

Table = Mapping[tuple[str, str | None], Sequence[tuple[Any, ...]]]
"""(technique, file of its operator's folder; None: its own) -> (name, right, wrong, caught), and a problem where it is
not the usual one, with a distribution where that is not "normal". `caught`: the name of the CPU runtime's diagnosis, or
of the gate's check."""


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
    distribution: str = "normal"

    def kernel(self) -> together.Kernel:
        own = f"{techniques.at(self.technique, self.problem).path}.cu"
        file = f"{self.problem.operator}/{self.file}" if self.file else own
        read = together.edited(file, {self.right: self.wrong})
        return together.Kernel(self.technique, self.problem, read=read)


def of(table: Table, usual: Any, others: Mapping[str, Any] = {}) -> list[Edit]:
    """Sorted by problem, since the gate caches the exact answers of one problem at a time. `others`: technique -> the
    usual problem of its edits, where that is another."""
    found = [
        Edit(name, file, *row[:4], *(row[4:] or [others.get(name, usual)]))
        for (name, file), rows in table.items()
        for row in rows
    ]
    return sorted(found, key=lambda edit: edit.problem.slug)


def as_they_are(edits: Sequence[Edit], usual: Any) -> list[Any]:
    """(technique, problem) of each, to run without the edit: parameters of a test. On the usual problem the tests of
    the rungs run the kernel."""
    cells = sorted({(edit.technique, edit.problem) for edit in edits if edit.problem != usual})
    return [pytest.param(*cell, id=f"{cell[0]}-{cell[1].slug}") for cell in cells]


Libraries = dict[Any, Library]
"""By what a test has as parameters: an edit, or a technique and a problem."""


def asked(request: pytest.FixtureRequest) -> Libraries:
    """A fixture of a file: the kernels, wrong and right, of its selected tests, all of one build."""
    kernels: dict[Any, together.Kernel] = {}
    for one in together.parameters(request):
        if wrong := one.get("wrong"):
            kernels[wrong] = wrong.kernel()
        else:
            cell = one["technique"], one["problem"]
            kernels[cell] = together.Kernel(*cell)
    return dict(zip(kernels, together.build([*kernels.values()]), strict=True))


def names(
    library: Library, technique: str, problem: Any, distributions: Sequence[str], gates: Sequence[Sequence[int]]
) -> Iterator[set[str]]:
    """The checks and diagnoses by which each gate catches a kernel; an empty set where it passes. `gates`: for each
    the seeds of the scheduler that its launches take in turn.

    Tensors of one gate are kept, or the next one's might lie where they lay."""
    kept = []
    may_vary = not techniques.at(technique, problem).repeats
    for seeds in gates:
        launch = cpu_run.launcher(library, problem, *seeds)

        def keeping(tensors: Any, scalars: Any, launch: Any = launch) -> None:
            kept.append(dict(tensors))
            launch(tensors, scalars)

        options: dict[str, Any] = {"device": "cpu", "repeats": 1, "padded": True, "may_vary": may_vary}
        try:
            verdict = gate.gate(keeping, problem, distributions=distributions, **options)
        except cpu_run.Named as found:
            yield {line.partition(":")[0] for line in str(found).splitlines()}
        else:
            yield set() if verdict.passed else {str(verdict.check)}
