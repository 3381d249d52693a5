"""Two logical GPUs on a CPU, by Ray: kernels that pass, crash and hang give the rows of one process; a killed actor
costs its problem, which is placed once more. Then a cluster that --cluster joins: a head and two nodes of one logical
GPU each; who does not have the token is told what to set.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.catalog.sources import ROOT
from harness.measure import fleet, ray_workers
from harness.rows import results, schema
from tests.support import fleet_kernels
from tests.support.fleet_kernels import ENDS, MARK, NODE, PROBLEMS, ends

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
    monkeypatch.setattr(ray_workers, "JOINING", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        told = rf"--cluster: got {address}, where no Ray answers \(no answer within 2 s\).*ray start --head"
        with pytest.raises(ray_workers.Refused, match=told), ray_workers.workers(None, address):
            raise AssertionError("there are no workers")


def test_why_ray_joins_no_cluster_is_told() -> None:
    told = r"--cluster: got nowhere, where no Ray answers \(ConnectionError: [^\n]*nowhere\); `ray start --head`"
    with pytest.raises(ray_workers.Refused, match=told), ray_workers.workers(None, "nowhere"):
        raise AssertionError("there are no workers")


@dataclass(frozen=True)
class Cluster:
    address: str
    folder: Path
    nodes: tuple[subprocess.Popen, ...]
    environment: dict[str, str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # its sockets have paths of 107 characters at most
    (folder / "token").write_text(secrets.token_hex(32))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        "PYTHONPATH": str(ROOT),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "RAY_worker_register_timeout_seconds": "3600",
        MARK: str(folder / "mark"),
        NODE: "1",
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    begun: list[subprocess.Popen] = []
    try:
        head = ("--head", f"--port={address.rpartition(':')[2]}", "--num-gpus=0", "--include-dashboard=false")
        for options in (head, *[(f"--address={address}", "--num-gpus=1")] * 2):
            begun.append(start(folder, environment, *options))
        yield Cluster(address, folder, tuple(begun[1:]), environment)
    finally:
        for process in reversed(begun):
            process.terminate()
        for process in begun:
            process.wait(60)
        left = processes_of(folder)
        for process in left:
            os.kill(process, signal.SIGKILL)
        shutil.rmtree(folder)
        assert not left, "Ray left processes behind"


def start(folder: Path, environment: dict[str, str], *options: str) -> subprocess.Popen:
    """`ray start`, once it says that it has. `ray stop` would end every Ray of this user: each is a process here."""
    log = folder / f"{len(list(folder.glob('*.log')))}.log"
    common = ("--num-cpus=1", "--object-store-memory=100000000", "--node-ip-address=127.0.0.1", "--block")
    temporary = (f"--temp-dir={folder / 'ray'}",) if "--head" in options else ()
    ray = (sys.executable, "-m", "ray.scripts.scripts", "start")
    with log.open("wb") as said:
        process = subprocess.Popen([*ray, *options, *common, *temporary], env=environment, stdout=said, stderr=said)
    while "Ray runtime started" not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.2)
    return process


def processes_of(folder: Path) -> list[int]:
    """Those whose command names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            named = str(folder) in path.read_bytes().decode(errors="replace")
        except OSError:  # it has ended
            continue
        found += [int(path.parent.name)] if named else []
    return found


def spread(cluster: Cluster, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ("-m", "tests.support.fleet_kernels", "--cluster", cluster.address, "--rows", str(path))
    environment = {**cluster.environment, **environment}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.full
def test_who_has_not_the_token_is_told_what_to_do(cluster: Cluster, tmp_path: Path) -> None:
    done = spread(cluster, tmp_path / "x.jsonl", RAY_AUTH_MODE="disabled")
    assert done.returncode == 2
    assert done.stderr.startswith(f"--cluster: got {cluster.address}, where no Ray answers (")
    assert "RAY_AUTH_MODE is currently 'disabled' (not 'token'). Ensure that the token" in done.stderr


@pytest.mark.full
def test_a_cluster_gives_the_rows_of_one_process_and_of_a_node_that_died(cluster: Cluster, tmp_path: Path) -> None:
    done = spread(cluster, tmp_path / "fleet.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "what a program reads is not for Ray's words about a node"
    rows = results.read(tmp_path / "fleet.jsonl", schema.check)
    alone = ends(fleet_kernels.run(tmp_path / "alone.jsonl", PROBLEMS[:2]))
    assert {name: end for name, end in ends(rows).items() if name[0] <= 2} == alone
    assert Path(cluster.environment[MARK]).exists()
    assert sum(node.wait(60) != 0 for node in cluster.nodes if node.poll() is not None) == 1
    assert f"{PROBLEMS[2].slug} is begun once more" in done.stderr
    assert ends(rows)[3, "kills_once"] == ends(rows)[3, "right"] == ("passed", None)
