"""The page of regressions says how far a ratio moves by chance, with rows and without."""

from reports.data.dataset import Dataset
from reports.pages import overview
from tests.support import replicated_rows as replicated
from tests.support.pages import dataset, rendered


def said(data: Dataset) -> str:
    return " ".join(rendered("regressions.html", overview.regressions(data)).split())


def test_the_noise_between_boards_stands_above_the_verdicts() -> None:
    assert "from board to board although nothing has changed" in said(dataset(replicated.rows()))
    assert "no verdict" in said(Dataset("NVIDIA H200", True, [], {}, {}))
