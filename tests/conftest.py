"""GPU tests skip with the reason, caches stay inside the checkout, and the summary says where the time went."""

import gc
import os
import resource
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
# Before anything imports triton or torch, here and in every process that a test starts: one cache for all of them, also
# for those that run a copy of the checkout; and one thread each, for the tests are what runs in parallel.
CACHE = os.environ.setdefault("TWINKERNELS_CACHE", str(CHECKOUT / "build"))
os.environ.setdefault("TRITON_CACHE_DIR", f"{CACHE}/triton")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{CACHE}/inductor")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

_seconds: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def same_compilers() -> Iterator[None]:
    """A test leaves no variable behind that a compiler reads: the next ones would get other machine code."""
    before = _of_compilers()
    yield
    changed = sorted(name for name, _ in before ^ _of_compilers())
    assert not changed, f"the test left {', '.join(changed)} changed; monkeypatch.setenv undoes it"


@pytest.fixture(scope="session", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Each that starts by itself imports torch."""
    from harness.measure import worker
    from tests.support import forked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "subprocess", forked.SUBPROCESS)
        yield


@pytest.fixture
def inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that compiles by torch.compile, which names a ptxas to Triton: not for the tests after it."""
    monkeypatch.setenv("TRITON_PTXAS_PATH", "")
    monkeypatch.delenv("TRITON_PTXAS_PATH")


def _of_compilers() -> set[tuple[str, str]]:
    prefixes = ("TRITON_", "DISABLE_", "CUDA_", "TORCH", "TWINKERNELS_")
    return {(name, value) for name, value in os.environ.items() if name.startswith(prefixes)}


@cache
def why_no_gpu() -> str | None:
    """The reason why GPU tests cannot run here, or None."""
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a CPU build"
    if not torch.cuda.is_available():
        return "no NVIDIA GPU, or its driver is too old for this torch"
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--install", action="store_true", help="Download the Tritons and rivals that proofs need.")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is collected while tests are, seldom later, and what is imported by then is never looked through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000)
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_itemcollected(item: pytest.Item) -> None:
    """A file's tests run in one process, for the fixtures that they share; where it names an xdist_group, with those of
    other files."""
    marked = item.get_closest_marker("spread") or item.get_closest_marker("xdist_group")
    if item.config.pluginmanager.hasplugin("xdist") and not marked:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if gpu := item.get_closest_marker("gpu"):
        import torch

        reason = why_no_gpu()
        if reason is None and gpu.args and (major := torch.cuda.get_device_capability()[0]) not in gpu.args:
            reason = f"of compute capability {gpu.args[0]}.x, got {major}.x"
        if reason:
            pytest.skip(f"needs a GPU: {reason}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    slow = [(name, seconds) for name, seconds in _seconds.most_common() if seconds >= 1]
    if slow:
        terminalreporter.section("where the time went")
    for name, seconds in slow:
        terminalreporter.line(f"{seconds:7.1f} s  {name}")
    if slow:
        spent = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        seconds = sum(usage.ru_utime + usage.ru_stime for usage in spent)
        terminalreporter.line(f"{seconds:7.1f} s  of processors, in all")
