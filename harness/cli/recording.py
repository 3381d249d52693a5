"""record: runs become part of the repository."""

from pathlib import Path
from typing import Annotated

import typer

from harness.catalog.sources import ROOT
from harness.cli.options import bad_usage
from harness.cli.output import RECORDED, console


def record(runs: Annotated[list[Path], typer.Argument(metavar="FILE", exists=True, dir_okay=False)]) -> None:
    """Copy runs into reports/recorded/, from which machines without a GPU report, and redraw README's figure.

    A recorded run never changes. A newer run is stored beside it, and pages show the newest current row.
    """
    from harness.expressibility import matrix
    from harness.rows import record as recorded
    from reports import build

    with bad_usage():  # a file that holds no rows, or rows that are not recorded
        files = recorded.record(runs, RECORDED, matrix.proofs())
    for path in [*files, *build.readme_figures(ROOT / "reports" / "figures")]:
        console.print(f"wrote {path.relative_to(ROOT)}", soft_wrap=True)
