"""Two logical GPUs on a CPU, by Ray: kernels that pass, crash and hang give the rows of one process; a killed actor
costs its problem, which is placed once more."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.catalog.sources import ROOT
from harness.measure import fleet, ray_workers
from harness.rows import results, schema
from tests.support import fleet_kernels
from tests.support.fleet_kernels import ENDS, MARK, PROBLEMS, ends

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install -e '.[cluster]'"),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict]]:
    folder = tmp_path_factory.mktemp("fleet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, str(folder / "mark"))
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.setattr("harness.catalog.techniques.TECHNIQUES", ())
        patch.setattr(fleet, "source_sha256", fleet_kernels.source_sha256)
        path = folder / "fleet.jsonl"
        with ray_workers.workers(2, timeout=3600) as (workers, new_worker):
            assert sorted(worker.board.partition(" of ")[0] for worker in workers) == ["GPU 0", "GPU 1"]
            found = fleet.run(fleet_kernels.work(), path, workers, new_worker=new_worker)
        assert found == results.read(path, schema.check)
        yield found


def test_two_gpus_give_the_rows_of_one_process(rows: list[dict], tmp_path: Path) -> None:
    alone = ends(fleet_kernels.run(tmp_path / "alone.jsonl", PROBLEMS[:2]))
    assert {name: status for name, (status, _) in alone.items()} == {
        (heads, name): status for heads, those in enumerate(ENDS, 1) for name, status in those.items()
    }
    assert {name: end for name, end in ends(rows).items() if name[0] <= 2} == alone


def test_a_problem_whose_actor_was_killed_is_placed_once_more(rows: list[dict]) -> None:
    found = ends(rows)
    assert found[3, "kills_once"] == found[3, "right"] == ("passed", None)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "127.0.0.1:99999"])
def test_an_address_where_nothing_answers_is_told_at_once(address: str) -> None:
    """Ray itself tried for more than ten minutes."""
    with (
        pytest.raises(
            ray_workers.Refused, match=rf"--cluster: got {address}, where nothing answers .*ray start --head"
        ),
        ray_workers.workers(None, address),
    ):
        raise AssertionError("there are no workers")


def test_what_answers_at_the_address_and_is_no_ray_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_workers, "JOINING", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        told = rf"--cluster: got {address}, where no Ray answers \(no answer within 5 s\).*ray start --head"
        with pytest.raises(ray_workers.Refused, match=told), ray_workers.workers(None, address):
            raise AssertionError("there are no workers")


def test_why_ray_joins_no_cluster_is_told() -> None:
    told = r"--cluster: got nowhere, where no Ray answers \(ConnectionError: [^\n]*nowhere\); `ray start --head`"
    with pytest.raises(ray_workers.Refused, match=told), ray_workers.workers(None, "nowhere"):
        raise AssertionError("there are no workers")
