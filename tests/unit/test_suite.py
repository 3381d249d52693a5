"""With several processes, the tests of one file stay in one of them."""

from __future__ import annotations

import os

import pytest


def test_the_tests_of_a_file_stay_in_one_process(request: pytest.FixtureRequest) -> None:
    """pytest-xdist goes by the end of a test's name. A pytest in which that cannot be set spreads every file's tests
    over all processes, and each makes anew what they share."""
    if "PYTEST_XDIST_WORKER" not in os.environ or request.config.getoption("dist", "no") != "no":
        pytest.skip("runs in one process: `make test` runs in several")
    if not request.config.getvalue("loadgroup"):
        pytest.skip("runs without --dist loadgroup: `make test` sets it")
    assert request.node.nodeid.endswith("@tests/unit/test_suite.py")
