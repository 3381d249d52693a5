"""What files of tests share: the recorded rows, and pages that are made from them."""

from collections.abc import Sequence

import pytest

from reports import build
from reports.data.dataset import Dataset
from reports.data.loading import recorded_hashes
from tests.support.pages import ANSWERS, LONGEST, PAGES, Recorded

RECORDED = build.ROOT / "recorded"


@pytest.fixture(scope="session")
def recorded_rows() -> build.Site:
    """All that was recorded counts, also after a kernel was edited: the pages at their fullest."""
    return build.Site(RECORDED, (), recorded_hashes(RECORDED), only=(*PAGES, *ANSWERS, *LONGEST))


@pytest.fixture(scope="session")
def recorded_data(recorded_rows: build.Site) -> dict[str, Sequence[Dataset]]:
    """By operator."""
    return {name: rows.datasets for name, rows in recorded_rows.rows.items()}


@pytest.fixture(scope="session")
def recorded_site(recorded_rows: build.Site, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "PROCESSES", 1)  # several compute the same of these rows
        broken, _ = recorded_rows.draw(folder, lambda *_: None)
    return Recorded(folder, broken)
