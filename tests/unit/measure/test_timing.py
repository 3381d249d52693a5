"""The timer interleaves, stops when it knows, says when it does not, and agrees with other timers."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from harness.machine import clocks
from harness.measure import timing


class Simulated(timing.Stopwatch):
    """On it a call named "x 2.0" takes 2.0 ms, and a pause takes no real time."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.seconds = 0.0
        self.slept = 0.0
        self.batches: list[list[str]] = []
        self._noise = noise
        self._random = random.Random(0)

    def measure(self, batch: Sequence[tuple[str, timing.Call]], notify: timing.Notify) -> list[float]:
        self.batches.append([label for label, _ in batch])
        samples = []
        for label, call in batch:
            notify("launching", label)
            call()
            samples.append(float(label.split()[1]) * (1 + self._random.gauss(0, self._noise)))
        self.seconds += sum(samples) / 1e3
        return samples

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.slept += seconds


def nothing() -> None:
    pass


CALLS = {"a 1.0": nothing, "b 2.0": nothing, "c 4.0": nothing}


def test_every_round_has_every_call_once_in_a_new_order() -> None:
    stopwatch = Simulated(noise=0.01)
    timings = timing.time_group(CALLS, stopwatch=stopwatch)
    rounds = stopwatch.batches[1:]
    assert all(sorted(batch) == sorted(CALLS) for batch in rounds)
    assert len({tuple(batch) for batch in rounds}) == 6
    assert {len(result.samples_ms) for result in timings.values()} == {len(rounds)}
    assert rounds == time_again(noise=0.01, seed=0)
    assert rounds[:20] != time_again(noise=0.01, seed=1)[:20]


def time_again(noise: float, seed: int) -> list[list[str]]:
    stopwatch = Simulated(noise)
    timing.time_group(CALLS, stopwatch=stopwatch, seed=seed)
    return stopwatch.batches[1:]


def test_samples_belong_to_their_call_and_the_first_launches_are_not_kept() -> None:
    stopwatch = Simulated()
    timings = timing.time_group(CALLS, stopwatch=stopwatch)
    for label, result in timings.items():
        assert set(result.samples_ms) == {float(label.split()[1])}
    assert len(stopwatch.batches) == 1 + len(timings["a 1.0"].samples_ms)


def test_stops_when_all_medians_are_known_but_not_before_twenty_samples() -> None:
    assert len(timing.time_group(CALLS, stopwatch=Simulated())["a 1.0"].samples_ms) == 20
    noisy = timing.time_group(CALLS, stopwatch=Simulated(noise=0.02), max_seconds=60)
    assert 50 < len(noisy["a 1.0"].samples_ms) < 500
    assert all(timing.relative_error(result.samples_ms) < 0.003 for result in noisy.values())
    assert {result.status for result in noisy.values()} == {"passed"}


def test_slow_calls_need_fewer_samples_but_not_less_certainty() -> None:
    slow = {"a 1.0": nothing, "b 100.0": nothing}
    assert len(timing.time_group(slow, stopwatch=Simulated(noise=0.001))["b 100.0"].samples_ms) == timing.FEWEST
    noisy = timing.time_group(slow, stopwatch=Simulated(noise=0.02), max_seconds=60)
    assert len(noisy["b 100.0"].samples_ms) > 50


def test_what_is_noisy_at_the_cap_has_not_converged() -> None:
    stopwatch = Simulated(noise=0.2)
    timings = timing.time_group(CALLS, stopwatch=stopwatch, max_seconds=3)
    assert {result.status for result in timings.values()} == {"not_converged"}
    assert "3 s" in (timings["a 1.0"].reason or "")
    assert 3 <= stopwatch.seconds < 3.2
    tolerable = timing.time_group(CALLS, stopwatch=Simulated(noise=0.03), max_seconds=3)
    assert {result.status for result in tolerable.values()} == {"passed"}


def test_burst_rests_between_rounds() -> None:
    stopwatch = Simulated()
    timing.time_group(CALLS, stopwatch=stopwatch)
    assert stopwatch.slept == pytest.approx((1 + 20) * 3 * 0.007)


def test_an_idle_stream_rests_after_long_calls_alone() -> None:
    def slept(calls: dict[str, timing.Call]) -> float:
        stopwatch = Simulated()
        timing.time_group(calls, stopwatch=stopwatch, mode="idle")
        return stopwatch.slept

    assert slept({"a 0.25": nothing, "b 0.75": nothing}) == pytest.approx(3 * 0.001), "once, before the first round"
    assert slept({"a 0.25": nothing, "b 1.75": nothing}) == pytest.approx((1 + 20) * 3 * 0.002)


def test_burst_rests_within_a_round_of_long_kernels() -> None:
    """Queued one after another, 40 ms of kernels met the power cap that 20 ms did not."""
    stopwatch = Simulated()
    timing.time_group({"a 8.0": nothing, "b 9.0": nothing, "c 30.0": nothing}, stopwatch=stopwatch)
    rounds = stopwatch.batches[1:]
    assert sorted(label for batch in rounds for label in batch) == sorted(["a 8.0", "b 9.0", "c 30.0"] * 20)
    assert {tuple(sorted(batch)) for batch in rounds} == {("a 8.0", "b 9.0"), ("a 8.0",), ("b 9.0",), ("c 30.0",)}
    assert stopwatch.slept == pytest.approx((1 + 20) * 3 * 0.047)


def test_a_long_kernel_gets_the_rest_and_the_time_that_it_needs() -> None:
    stopwatch = Simulated(noise=0.01)
    timings = timing.time_group({"a 200.0": nothing, "b 400.0": nothing}, stopwatch=stopwatch, max_seconds=1)
    assert {result.status for result in timings.values()} == {"passed"}
    assert len(timings["b 400.0"].samples_ms) >= timing.FEWEST
    busy = stopwatch.seconds - stopwatch.slept
    assert 2 < stopwatch.slept / busy < 3  # a rest has an end
    hopeless = Simulated(noise=0.3)
    timings = timing.time_group({"a 200.0": nothing, "b 400.0": nothing}, stopwatch=hopeless, max_seconds=1)
    assert {result.status for result in timings.values()} == {"not_converged"}
    assert hopeless.seconds < 3 * timing.FEWEST * 4 * 0.6


def test_burst_waits_until_the_power_is_low() -> None:
    stopwatch = Simulated()

    class Hot(FakeNvml):
        def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
            return 650_000 if stopwatch.seconds < 0.5 else 200_000

    timing.time_group(CALLS, stopwatch=stopwatch, source=clocks.Device(Hot(), None))
    assert stopwatch.slept - (1 + 20) * 3 * 0.007 == pytest.approx(0.48, abs=0.03)
    stopwatch = Simulated()
    timing.time_group({"a 1.0": nothing}, stopwatch=stopwatch, source=clocks.Device(FakeNvml(), None))
    assert stopwatch.slept == pytest.approx(21 * timing.LONGEST_REST, rel=0.02), "never low: it goes on"


class Clock:
    """A kernel clock by which the call before last ran at its place among all calls, in tenths of a GHz."""

    def __init__(self) -> None:
        self.around_calls = 0

    def around(self, call: timing.Call) -> timing.Call:
        def counted() -> None:
            self.around_calls += 1
            call()

        return counted

    def ghz(self) -> float:
        return self.around_calls / 10


@pytest.mark.parametrize("mode", timing.MODES)
def test_the_clock_of_a_kernel_is_read_in_launches_that_are_no_samples(mode: str) -> None:
    """After the samples, in launches like theirs: alone and rested in a burst, under load one behind the other."""
    plain, stopwatch, clock = Simulated(), Simulated(), Clock()
    without = timing.time_group(CALLS, stopwatch=plain, mode=mode)
    timings = timing.time_group(CALLS, stopwatch=stopwatch, mode=mode, kernel_clock=clock)
    assert {label: len(one.samples_ms) for label, one in timings.items()} == {
        label: len(one.samples_ms) for label, one in without.items()
    }
    assert {one.clock_ghz for one in without.values()} == {None}
    read = [ghz for one in timings.values() for ghz in one.clock_ghz or []]
    assert len(read) == len(set(read)) == len(CALLS) * timing.CLOCK_LAUNCHES
    extra = sum(map(len, stopwatch.batches)) - sum(map(len, plain.batches))
    assert clock.around_calls == extra
    if mode != "sustained":
        assert stopwatch.batches[: len(plain.batches)] == plain.batches
        assert extra == len(read)
        assert stopwatch.slept - plain.slept == pytest.approx(timing.CLOCK_LAUNCHES * 3 * 0.007)
    else:
        assert extra == len(read) * 8


def test_sustained_preloads_each_call_alone_for_two_seconds() -> None:
    stopwatch = Simulated(noise=0.01)
    timings = timing.time_group(CALLS, stopwatch=stopwatch, mode="sustained")
    assert {result.status for result in timings.values()} == {"passed"}
    assert stopwatch.slept == 0
    batches = stopwatch.batches[1:]
    assert all(len(set(batch)) == 1 for batch in batches)
    changes = [before[0] != after[0] for before, after in pairwise(batches)]
    assert sum(changes) == len(CALLS) - 1
    launched = Counter(label for batch in batches for label in batch)
    for label, result in timings.items():
        milliseconds = float(label.split()[1])
        unkept = (launched[label] - len(result.samples_ms)) * milliseconds / 1e3
        assert unkept == pytest.approx(2.0, abs=0.1)


def test_sustained_sees_whole_swings_of_a_clock_at_its_power_cap() -> None:
    """Two series of one kernel on an H200 once differed by 5%: each had 24 samples in a row."""

    class Swinging(Simulated):
        def measure(self, batch: Sequence[tuple[str, timing.Call]], notify: timing.Notify) -> list[float]:
            begin = self.seconds
            slower = 1 + 0.05 * math.sin(2 * math.pi * begin / 0.7)
            samples = [slower * sample for sample in super().measure(batch, notify)]
            self.seconds = begin + sum(samples) / 1e3
            return samples

    timings = timing.time_group({"a 1.0": nothing, "again 1.0": nothing}, stopwatch=Swinging(0.001), mode="sustained")
    once, again = (statistics.median(result.samples_ms) for result in timings.values())
    assert once == pytest.approx(again, rel=0.005)


def test_sustained_waits_until_the_clock_has_recovered_from_the_call_before() -> None:
    """A hot kernel leaves a low clock to the one behind it, for longer than two seconds."""

    class Recovering(Simulated):
        hot = 0.0

        def measure(self, batch: Sequence[tuple[str, timing.Call]], notify: timing.Notify) -> list[float]:
            slower = 1 + 0.1 * math.exp(-(self.seconds - self.hot) / 2)
            samples = [slower * sample for sample in super().measure(batch, notify)]
            if batch[0][0].startswith("hot"):
                self.hot = self.seconds
            return samples

    calls = {"a 1.0": nothing, "hot 1.0": nothing, "again 1.0": nothing}
    for seed in range(6):
        timings = timing.time_group(calls, stopwatch=Recovering(0.001), mode="sustained", seed=seed)
        medians = {label: statistics.median(result.samples_ms) for label, result in timings.items()}
        assert medians["a 1.0"] == pytest.approx(medians["again 1.0"], rel=0.01)


def test_sustained_takes_its_fewest_samples_of_a_long_kernel_too() -> None:
    calls = {"a 400.0": nothing, **CALLS}
    timings = timing.time_group(calls, stopwatch=Simulated(0.001), mode="sustained", max_seconds=4)
    assert len(timings["a 400.0"].samples_ms) >= timing.FEWEST
    assert {result.status for result in timings.values()} == {"passed"}


def test_each_launch_is_announced_and_may_be_the_only_one_in_flight() -> None:
    announced = []
    stopwatch = Simulated()

    def fails() -> None:
        raise RuntimeError("illegal memory access")

    with pytest.raises(RuntimeError, match="illegal"):
        timing.time_group(
            {**CALLS, "bad 1.0": fails},
            stopwatch=stopwatch,
            notify=lambda stage, label: announced.append(label),
        )
    assert announced[-1] == "bad 1.0"
    stopwatch = Simulated()
    timing.time_group(CALLS, stopwatch=stopwatch, queue=1)
    assert {len(batch) for batch in stopwatch.batches} == {1}, "the first launches included"


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mode: got 'steady', expected one of burst, sustained, idle"):
        timing.time_group(CALLS, stopwatch=Simulated(), mode="steady")


def test_relative_error_is_that_of_the_median() -> None:
    chance = random.Random(1)
    medians = [statistics.median(chance.gauss(10, 0.1) for _ in range(50)) for _ in range(2000)]
    typical = statistics.fmean(timing.relative_error([chance.gauss(10, 0.1) for _ in range(50)]) for _ in range(200))
    assert typical == pytest.approx(statistics.stdev(medians) / 10, rel=0.1)
    outlier = [10.0, 10.1, 9.9] * 20
    assert timing.relative_error([*outlier, 1000.0]) == pytest.approx(timing.relative_error(outlier), rel=0.1)
    assert timing.relative_error([1.0]) == float("inf")


def test_the_host_stopwatch_measures_wall_time() -> None:
    stopwatch = timing.HostStopwatch()
    begin = time.perf_counter()
    (sample,) = stopwatch.measure([("sleep", lambda: time.sleep(0.02))], lambda *_: None)
    assert 20 <= sample <= 1e3 * (time.perf_counter() - begin)


class SimulatedGpu:
    """A queue that works off spins and kernels in order, while the host needs a while to enqueue each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host = self.device = 0.0  # seconds
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                pass

            def record(self) -> None:
                gpu.run(0.0)
                self.at = gpu.device

            def query(self) -> bool:
                return self.at <= gpu.host

            def synchronize(self) -> None:
                gpu.host = max(gpu.host, self.at)

            def elapsed_time(self, end: Event) -> float:
                return (end.at - self.at) * 1e3

        monkeypatch.setattr(timing.torch.cuda, "Event", Event)
        monkeypatch.setattr(timing.torch.cuda, "_sleep", lambda cycles: self.run(cycles / 2e9))
        monkeypatch.setattr(timing.torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(
            timing.torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=50 * 2**20)
        )
        monkeypatch.setattr(timing.torch, "randint", lambda low, high, size, **_: self.buffer(size))

    def buffer(self, size: tuple[int]) -> SimpleNamespace:
        self.flushed_bytes = 4 * size[0]
        return SimpleNamespace(bitwise_not_=lambda: self.run(50e-6))

    def run(self, seconds: float, enqueue: float = 5e-6) -> None:
        self.host += enqueue
        self.device = max(self.device, self.host) + seconds


def test_the_gpu_is_kept_busy_while_a_batch_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimulatedGpu(monkeypatch)
    stopwatch = timing.CudaStopwatch()
    assert gpu.flushed_bytes == 100 * 2**20
    launches = []

    def kernel() -> None:
        launches.append(1)
        gpu.run(20e-6, enqueue=1e-3)  # a launcher that is slower than its kernel

    assert stopwatch.measure([("a", kernel)] * 4, lambda *_: None) == pytest.approx([0.02] * 4)
    assert len(launches) == 4 * 5  # the spin was doubled until it outlasted 4 ms of launching
    assert not stopwatch.exposed

    def synchronizes() -> None:
        gpu.host = max(gpu.host, gpu.device)
        gpu.run(20e-6)

    stopwatch.measure([("b", synchronizes)], lambda *_: None)
    assert stopwatch.exposed == {"b"}


def test_on_an_idle_stream_the_time_of_the_host_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimulatedGpu(monkeypatch)
    monkeypatch.setattr(timing.torch.cuda, "synchronize", lambda: setattr(gpu, "host", max(gpu.host, gpu.device)))
    stopwatch = timing.of_mode("idle", "cuda")
    host = itertools.cycle((5e-3, 1e-3))  # with cold caches, with warm ones
    found = stopwatch.measure([("a", lambda: gpu.run(20e-6, enqueue=next(host)))] * 3, lambda *_: None)
    assert found == pytest.approx([1.02] * 3, rel=0.01)
    assert stopwatch.exposed == {"a"}


def test_host_latency_is_the_time_of_a_call_and_not_of_its_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    now, synchronized = [0.0], []

    def call() -> None:
        now[0] += 20e-6

    def synchronize() -> None:
        now[0] += 1.0
        synchronized.append(now[0])

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    assert timing.host_latency(call, synchronize=synchronize) == pytest.approx(20)
    assert len(synchronized) == 2


class FakeNvml:
    """A card at 1500 MHz and 650 of 700 W that idles every other time and is power-capped in between."""

    NVML_CLOCK_SM = 1
    NVMLError = RuntimeError

    def __init__(self) -> None:
        self.asked = 0

    def nvmlDeviceGetClockInfo(self, handle: object, clock: int) -> int:
        self.asked += 1
        return 1500 if self.asked % 2 else 345

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        return 650_000

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: object) -> int:
        return 700_000

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int:
        return 0x4 if self.asked % 2 else 0x1

    def nvmlDeviceGetEccMode(self, handle: object) -> int:
        raise RuntimeError("not supported")


def test_clocks_are_those_of_the_busy_moments() -> None:
    nvml = FakeNvml()
    device = clocks.Device(nvml, None)
    stopwatch = timing.HostStopwatch()
    with clocks.Sampler(device, hz=200) as sampler:
        begin = stopwatch.now()
        while nvml.asked < 40:
            time.sleep(0.01)
        summary = sampler.summary(begin, stopwatch.now())
        assert sampler.near_power_cap()
    assert (summary["sm_mhz"], summary["power_w"], summary["throttle"]) == (1500, 650, ["sw_power_cap"])
    assert summary["samples"] >= 5
    assert sampler.summary(0, 1) is None
    assert device.ask("EccMode") is None
    assert device.ask("NoSuchQuestion") is None


@pytest.mark.parametrize(
    ("uuid", "gpus", "handle"),
    [("b", "ab", "b"), ("GPU-b", "ab", "b"), ("c", "a", "a"), ("c", "ab", None), (None, "ab", None), (None, "a", "a")],
)
def test_clocks_are_those_of_the_gpu_that_torch_sees(
    monkeypatch: pytest.MonkeyPatch, uuid: str | None, gpus: str, handle: str | None
) -> None:
    class Host(FakeNvml):
        def nvmlInit(self) -> None:
            pass

        def nvmlDeviceGetHandleByUUID(self, wanted: str) -> str:
            if wanted not in [f"GPU-{gpu}" for gpu in gpus]:
                raise self.NVMLError("not found")
            return wanted[-1]

        def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
            return gpus[index]

        def nvmlDeviceGetCount(self) -> int:
            return len(gpus)

    monkeypatch.setitem(sys.modules, "pynvml", Host())  # type: ignore[arg-type]
    device = clocks.device(uuid)
    assert (device and device.handle) == handle


def test_without_nvml_there_are_no_clocks() -> None:
    with clocks.Sampler(None) as sampler:
        assert not sampler.near_power_cap()
    assert sampler.summary(0, float("inf")) is None
    assert timing.time_group(CALLS, stopwatch=Simulated())["a 1.0"].clocks is None


@pytest.fixture
def matmuls() -> dict[str, Callable[[], Any]]:
    import torch

    a, b, c = (torch.randn(n, n, dtype=torch.float16, device="cuda") for n in (2048, 4096, 8192))
    return {"2048": lambda: a @ a, "4096": lambda: b @ b, "8192": lambda: c @ c}


@pytest.fixture
def copy() -> Callable[[], Any]:
    """Bound by memory bandwidth: unlike a matmul it runs as fast alone as after a second of load, so that timers which
    load the card differently must agree. It takes 0.5 ms, so that the microseconds between two events do not count."""
    import torch

    source = torch.randint(0, 255, (2**30,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


@pytest.mark.gpu
def test_agrees_with_do_bench(copy: Callable[[], Any]) -> None:
    from triton.testing import do_bench

    ours = timing.time_group({"copy": copy}, stopwatch=timing.CudaStopwatch())["copy"]
    theirs = do_bench(copy, return_mode="median")
    assert ours.launch_hidden
    assert statistics.median(ours.samples_ms) == pytest.approx(theirs, rel=0.02)


@pytest.mark.gpu
def test_a_group_takes_seconds_and_its_twins_agree(matmuls: dict[str, Callable[[], Any]]) -> None:
    start = time.monotonic()
    calls = {**matmuls, "4096 again": matmuls["4096"]}
    timings = timing.time_group(calls, stopwatch=timing.CudaStopwatch(), source=clocks.device())
    assert time.monotonic() - start < 10
    once, again = (statistics.median(timings[name].samples_ms) for name in ("4096", "4096 again"))
    assert once == pytest.approx(again, rel=0.005)
    assert timings["4096"].clocks is None or timings["4096"].clocks["sm_mhz"] > 500
