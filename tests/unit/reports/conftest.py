"""What files of tests share: the recorded rows, and pages that are made from them."""

import pytest

from harness import operators
from reports import build
from reports.data.dataset import Dataset
from reports.data.loading import load, recorded_hashes
from tests.support.pages import ANSWERS, LONGEST, PAGES, Recorded

RECORDED = build.ROOT / "recorded"


@pytest.fixture(scope="session")
def recorded_site(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """All that was recorded counts, also after a kernel was edited: the pages at their fullest."""
    folder = tmp_path_factory.mktemp("recorded")
    site = build.Site(RECORDED, (), recorded_hashes(RECORDED), only=(*PAGES, *ANSWERS, *LONGEST))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "PROCESSES", 1)  # several compute the same of these rows
        broken, _ = site.draw(folder, lambda *_: None)
    return Recorded(folder, site, broken)


@pytest.fixture(scope="session")
def recorded_data() -> dict[str, list[Dataset]]:
    """Operator -> the recorded rows, of which those about this checkout's kernels count."""
    return {name: load(RECORDED, (), operator=name) for name in operators.names()}
