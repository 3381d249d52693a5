"""GPU workers by Ray: one actor a GPU, which starts commands there. The only file that imports Ray; `pip install -e
'.[cluster]'` brings it.

Ray places the actors and says which have died; it never retries anything. Its usage reports and its dashboard are off.
Whoever reaches the port of a Ray that asks for no token runs code as this user: keep it inside.
"""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from harness.catalog.sources import ROOT, harness_id
from harness.machine.processes import NoAnswer, answers, die_with_parent
from harness.measure.fleet import Answer, Lost
from harness.rows.reading import checkout_hashes

SILENCE = 120.0
"""Seconds without an answer after which an actor counts as lost, if Ray has not said so before."""
CONNECTING = 10.0
"""Seconds that the port of a cluster has to take a connection."""
JOINING = 60.0
"""Seconds that a cluster has to let a process join it."""
BEGIN = "`ray start --head` begins a cluster"
OBJECT_STORE_BYTES = 128 * 2**20
"""Rows are small; by default Ray takes a third of the memory."""
SAID = 4000
"""Characters of what a command printed that are kept."""


class Refused(RuntimeError):
    """These GPUs cannot do the work; the message names what is missing and the next step."""


class Commands:
    """The actor: it runs one command at a time and gives its rows line by line."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def describe(self) -> dict[str, Any]:
        """Which GPU and which node this is, and a hash of the kernels and the harness of its checkout."""
        import ray

        gpus = ",".join(map(str, ray.get_gpu_ids())) or "?"
        code = json.dumps([harness_id(), sorted(checkout_hashes().items())]).encode()
        return {
            "board": f"GPU {gpus} of {ray.util.get_node_ip_address()}",
            "code": hashlib.sha256(code).hexdigest()[:12],
        }

    def start(self, arguments: Sequence[str], earlier: Sequence[str]) -> None:
        """`arguments`: those of Python, a module first (-m harness run ...)."""
        self._folder = tempfile.TemporaryDirectory(prefix="twinkernels-")
        self._rows, self._log = (Path(self._folder.name) / name for name in ("rows.jsonl", "log"))
        self._rows.write_text("".join(f"{line}\n" for line in earlier))
        self._read = self._rows.stat().st_size
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments, "--rows", str(self._rows)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for whoever dispatches the work
                preexec_fn=die_with_parent,
            )

    def poll(self) -> tuple[tuple[str, ...], int | None, str]:
        """New whole lines, the exit code once the command has ended, the end of what it printed."""
        assert self._process is not None
        code = self._process.poll()
        with self._rows.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        lines = tuple(whole.decode(errors="replace").split("\n")) if whole else ()
        return lines, code, "" if code is None else self._log.read_text(errors="replace")[-SAID:]

    def stop(self) -> None:
        """Ctrl-C for the command."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)


class RayWorker:
    """One GPU, which may be on another node. Its methods raise Lost when it is gone."""

    def __init__(self, actor: Any) -> None:
        self.code = ""
        self.lost = ""
        self._board: str | None = None
        self._actor = actor
        self._ask(actor.describe.remote())

    def _ask(self, question: Any) -> None:
        self._question, self._since = question, time.monotonic()

    def _answer(self) -> Any:
        """What the actor says to the last question; None while it says nothing. Raises Lost."""
        import ray

        ready, _ = ray.wait([self._question], timeout=0)
        if not ready:
            if self._board and time.monotonic() - self._since > SILENCE:
                raise Lost(f"no answer for {SILENCE:g} s")
            return None
        try:
            return ray.get(self._question)
        except ray.exceptions.RayError as error:
            raise Lost(str(error).strip().split("\n")[0]) from None

    @property
    def board(self) -> str | None:
        """Its name; None until it answers. Where it ends before, `lost` says why."""
        if self._board is None:
            try:
                if found := self._answer():
                    self._board, self.code = found["board"], found["code"]
            except Lost as lost:  # before it had anything to lose
                self.lost = str(lost)
        return self._board

    def start(self, arguments: Sequence[str], earlier: Sequence[str]) -> None:
        """Starts `python arguments... --rows FILE`; FILE begins with the lines `earlier`, which the command
        continues."""
        self._actor.start.remote(list(arguments), list(earlier))
        self._ask(self._actor.poll.remote())

    def poll(self) -> Answer:
        """Returns at once."""
        found = self._answer()
        if found is None:
            return Answer()
        self._ask(self._actor.poll.remote())
        return Answer(*found)

    def stop(self, *, at_once: bool) -> None:
        """Asks the command to finish its case and end, or ends it."""
        import ray

        if at_once:
            ray.kill(self._actor, no_restart=True)
        else:
            self._actor.stop.remote()


@contextmanager
def workers(count: int | None, address: str | None = None, *, timeout: float = 300.0) -> Iterator[Any]:
    """(workers, new_worker) on `count` GPUs of this host, or of the cluster at `address`; on all of them by default.
    Raises Refused where Ray is not installed or cannot be reached, where there are fewer GPUs, and where a node has
    another commit."""
    try:
        import ray
    except ImportError:
        raise Refused(
            "--gpus, --cluster: got no Ray; install it with: pip install -e '.[cluster]', or give each process a part: "
            "--shard 1/4"
        ) from None
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address is not None:
        _ask_for_ray(address)
    cluster: dict[str, Any] = {"address": address}
    if address is None:
        cluster = {
            "address": "local",
            "num_gpus": count,
            "num_cpus": 1,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            # By default a worker has a minute to register and runs at niceness 15: on a busy machine it would starve.
            "_system_config": {"worker_register_timeout_seconds": int(timeout), "worker_niceness": 0},
        }
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **cluster)
    except (OSError, ValueError, RuntimeError) as error:
        raise Refused(
            f"--gpus, --cluster: got {address or 'this host'}, where no Ray answers ({error}); {BEGIN}"
        ) from None
    with ExitStack() as ending:
        # Ray prints the end of a dead node's log, whatever is asked of its loggers: into what --json is read from.
        ending.enter_context(redirect_stdout(ending.enter_context(open(os.devnull, "w"))))
        ending.callback(ray.shutdown)
        found = int(ray.cluster_resources().get("GPU", 0))
        if found < (wanted := count or max(1, found)):
            raise Refused(f"--gpus: got {count or 'all'}, but Ray sees {found} GPUs; expected at least {wanted}")
        actor = ray.remote(num_gpus=1, num_cpus=0, max_restarts=0, max_task_retries=0)(Commands)

        def new_worker() -> RayWorker:
            return RayWorker(actor.remote())

        ready = [new_worker() for _ in range(wanted)]
        _await(ready, timeout)
        yield ready, new_worker


def _ask_for_ray(address: str) -> None:
    """Raises Refused where no cluster can be joined. Ray's own tries take minutes and cannot be ended from Python, so
    that a process of its own, which can, tries first."""
    if place := re.fullmatch(r"\[?([^/]+?)\]?:(\d+)", address):
        try:
            socket.create_connection((place[1], int(place[2])), timeout=CONNECTING).close()
        except (OSError, OverflowError) as error:
            raise Refused(f"--cluster: got {address}, where nothing answers ({error}); {BEGIN}") from None
    ((_, answer),) = answers([(_join, (address,))], {}, seconds=JOINING)
    if isinstance(answer, NoAnswer):
        raise Refused(f"--cluster: got {address}, where no Ray answers ({answer.reason}); {BEGIN}")


def _join(address: str) -> None:
    """Joins a cluster and leaves it. Raises ConnectionError with the last that Ray says: above it are tracebacks."""
    with open(os.devnull, "wb") as nowhere:  # Ray's core has a line for each of its tries
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    import ray

    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        said = str(error.__cause__ or error).strip() or repr(error)
        raise ConnectionError(said.splitlines()[-1]) from None
    ray.shutdown()


def _await(ready: Sequence[RayWorker], timeout: float) -> None:
    end = time.monotonic() + timeout
    while any(worker.board is None for worker in ready):
        if lost := next((worker.lost for worker in ready if worker.lost), None):
            raise Refused(f"--gpus: a GPU's process ended before it answered: {lost}")
        if time.monotonic() > end:
            raise Refused(
                f"--gpus: {sum(worker.board is None for worker in ready)} GPUs did not answer for {timeout:g} s"
            )
        time.sleep(0.1)
    codes = {worker.code: worker.board for worker in ready}
    if len(codes) > 1:
        here, there, *_ = codes.values()
        raise Refused(f"checkout: got other kernels or another harness on {there} than on {here}; check out one commit")
