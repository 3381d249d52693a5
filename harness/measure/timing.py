"""Interleaved timing of a few calls on one GPU. Knows no operator.

Every timed launch starts with a cold L2 cache and with its launch cost hidden behind work queued before it. The calls
of a group run in a freshly shuffled order per round, so that drift of clocks and temperature meets all of them alike.
All samples are kept; statistics belong to whoever reads them.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from harness.catalog.entries import MODES
from harness.machine import clocks

if TYPE_CHECKING:
    from harness.build.sm_clocks import SmClocks

Call = Callable[[], object]
Notify = Callable[[str, str], None]
FEWEST = 10
"""Samples below which no median is believed."""
SLOW_ROUND = 0.1
"""Busy seconds of a round after which FEWEST samples are enough: a kernel of 100 ms varies by less than 0.1%."""
LONGEST_LOAD = 20.0
"""Milliseconds of launches that burst mode queues without a rest. On an H200 the power cap bites after about 30: a
kernel of 23 ms took up to 28 ms behind 50 ms of others, and 23.0 ms in every round that it opened."""
LONGEST_REST = 1.0
"""Seconds after which a rest has been long enough, whatever came before."""
UNRESTED = 1.0
"""Milliseconds up to which a call on an idle stream is followed by no rest: the GPU waits for the host meanwhile, and a
host that slept would begin each call with cold caches."""
CLOCK_LAUNCHES = 3
"""Launches of each call after the timing, around which the SM clock is read."""
LONGEST_PRELOAD = 5
"""Times `preload_seconds` after which a call is sampled though its time still moves."""


@dataclass
class Timing:
    """Samples of one call in milliseconds. `status` is passed or not_converged; `reason` says why it did not."""

    samples_ms: list[float] = field(default_factory=list)
    status: str = "passed"
    reason: str | None = None
    clocks: dict[str, Any] | None = None
    clock_ghz: list[float] | None = None
    """The SM clock while the call ran, of a few launches that are not timed."""
    launch_hidden: bool = True
    """False when some launch was not queued ahead of the GPU, so that samples may include host time."""


class Stopwatch:
    """Measures a batch of labelled calls. `exposed`: labels of calls whose launch was not hidden."""

    def __init__(self) -> None:
        self.exposed: set[str] = set()

    def measure(self, batch: Sequence[tuple[str, Call]], notify: Notify) -> list[float]:
        """Milliseconds per call. Each is named to `notify` before it is launched and before it is waited for, so that a
        crash or a hang has a name."""
        raise NotImplementedError

    def now(self) -> float:
        """In seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class HostStopwatch(Stopwatch):
    """Wall-clock time of calls that run on the CPU, which needs no rest."""

    def measure(self, batch: Sequence[tuple[str, Call]], notify: Notify) -> list[float]:
        samples = []
        for label, call in batch:
            notify("launching", label)
            start = time.perf_counter()
            call()
            samples.append((time.perf_counter() - start) * 1e3)
        return samples

    def sleep(self, seconds: float) -> None:
        pass


class CudaStopwatch(Stopwatch):
    """CUDA events around each launch on the current stream."""

    LONGEST_SPIN = 40_000_000
    """Clock cycles, about 20 ms: a call that is not queued by then synchronizes by itself."""
    _spin = 1_000_000

    def __init__(self) -> None:
        super().__init__()
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        # Random data: zeros would compress, and draw less power than any kernel's own traffic.
        self._flushed = torch.randint(-(2**31), 2**31 - 1, (2 * cache // 4,), dtype=torch.int32, device="cuda")

    def measure(self, batch: Sequence[tuple[str, Call]], notify: Notify) -> list[float]:
        while True:
            milliseconds, queued_ahead = self.behind_spin(batch, notify)
            if queued_ahead or self._spin >= self.LONGEST_SPIN:
                self.exposed.update(() if queued_ahead else (label for label, _ in batch))
                return milliseconds
            self._spin *= 2

    def behind_spin(self, batch: Sequence[tuple[str, Call]], notify: Notify) -> tuple[list[float], bool]:
        """Milliseconds of the calls, and whether all were queued while the GPU was kept busy."""
        events = [[torch.cuda.Event(enable_timing=True) for _ in "ab"] for _ in batch]
        spun = torch.cuda.Event()
        torch.cuda._sleep(self._spin)
        spun.record()
        for (label, call), (begin, end) in zip(batch, events, strict=True):
            notify("launching", label)
            self.flush()
            begin.record()
            call()
            end.record()
        queued_ahead = not spun.query()
        for (label, _), (_, end) in zip(batch, events, strict=True):
            notify("waiting for", label)
            end.synchronize()
        return [begin.elapsed_time(end) for begin, end in events], queued_ahead

    def hold(self) -> None:
        """Keeps the GPU busy for as long as it may take to queue a batch."""
        torch.cuda._sleep(self.LONGEST_SPIN)

    def flush(self) -> None:
        """Reads and writes twice the L2 cache."""
        self._flushed.bitwise_not_()


class IdleStopwatch(CudaStopwatch):
    """CUDA events around each launch on a stream with nothing queued: host time counts until the GPU has work. An
    untimed launch of the same call goes first, because rests and other calls leave the host's caches cold."""

    def measure(self, batch: Sequence[tuple[str, Call]], notify: Notify) -> list[float]:
        samples = []
        self.exposed.update(label for label, _ in batch)
        for label, call in batch:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
            notify("launching", label)
            call()
            self.flush()
            torch.cuda.synchronize()
            begin.record()
            call()
            end.record()
            notify("waiting for", label)
            end.synchronize()
            samples.append(begin.elapsed_time(end))
        return samples


def relative_error(samples: Sequence[float]) -> float:
    """Standard error of the median over the median: 1.2533 sigma / sqrt(n), with sigma = 1.4826 * the median absolute
    deviation, which a few outliers do not move. Infinite below two samples."""
    if len(samples) < 2:
        return float("inf")
    median = statistics.median(samples)
    sigma = 1.4826 * statistics.median(abs(sample - median) for sample in samples)
    return 1.2533 * sigma / len(samples) ** 0.5 / median if median else float("inf")


def of_mode(mode: str, device: str) -> Stopwatch:
    """The stopwatch of a mode; on a CPU the same one for all."""
    if device == "cpu":
        return HostStopwatch()
    return IdleStopwatch() if mode == "idle" else CudaStopwatch()


def time_group(calls: Mapping[str, Call], **options: Any) -> dict[str, Timing]:
    """Times `calls` (label -> zero-argument closure) until the relative error of every median is below `target`.

    Every call is in every round until the last one is known: what is left out of a round would not have met the others.
    A median needs `min_samples`, or FEWEST where a round takes longer than SLOW_ROUND. `max_seconds` caps the whole
    group (preloading apart), but FEWEST samples are always taken, and a burst group may take twice as long as those
    do, rests included; what is still above `limit` by then is `not_converged`.
    `mode`: "burst" keeps the card cool, with a rest after each LONGEST_LOAD and each round of all calls; "sustained"
    first runs each call alone for `preload_seconds`, and on while its time still moves, then samples it at the clock
    that this leaves, for at least as long: at the power cap the clock swings, and samples of one moment agree with each
    other, not with the next moment's; "idle" is burst, by an IdleStopwatch, without rests where no call takes longer
    than UNRESTED. `queue`: launches queued ahead of the GPU at once (default: all calls; 1 tells for certain which call
    broke the device). `source`: where NVML's clocks are read, if anywhere. `kernel_clock`: by what the kernels' own is,
    if at all: after the samples, in launches like theirs that are no samples. Raises ValueError on an unknown mode, and
    whatever a call raises.
    """
    return _Group(calls, **options).time()


@dataclass
class _Group:
    """The options of `time_group`, and how its two modes fill `timings`."""

    calls: Mapping[str, Call]
    stopwatch: Stopwatch
    mode: str = "burst"
    max_seconds: float = 8.0
    min_samples: int = 20
    target: float = 0.003
    limit: float = 0.005
    preload_seconds: float = 2.0
    queue: int | None = None
    seed: int = 0
    notify: Notify = lambda stage, label: None
    source: clocks.Device | None = None
    kernel_clock: SmClocks | None = None

    def time(self) -> dict[str, Timing]:
        if self.mode not in MODES:
            raise ValueError(f"mode: got {self.mode!r}, expected one of {', '.join(MODES)}")
        self.timings = {label: Timing(clock_ghz=[] if self.kernel_clock else None) for label in self.calls}
        self.fewest, self.chance = min(FEWEST, self.min_samples), random.Random(self.seed)
        with clocks.Sampler(self.source, now=self.stopwatch.now) as sampler:
            seconds = (self.sustained if self.mode == "sustained" else self.burst)(sampler, self.launch_once())
        for label, timing in self.timings.items():
            timing.launch_hidden = label not in self.stopwatch.exposed
            error = relative_error(timing.samples_ms)
            if len(timing.samples_ms) < self.fewest or error > self.limit:
                timing.status = "not_converged"
                timing.reason = (
                    f"relative error of the median {error:.3%} after {len(timing.samples_ms)} samples and {seconds:.3g}"
                    f" s for the group, expected at most {self.limit:.2%} and {self.fewest} samples or more"
                )
        return self.timings

    def launch_once(self) -> dict[str, float]:
        """Label -> milliseconds, of first launches, which load code."""
        found: dict[str, float] = {}
        for batch in self.batches(list(self.calls)):
            found |= zip(batch, self.measure(batch), strict=True)
        return found

    def burst(self, sampler: clocks.Sampler, milliseconds: Mapping[str, float]) -> float:
        """Returns the seconds that the group was given in the end."""
        now, seconds = self.stopwatch.now, self.max_seconds
        rests = self.mode == "burst" or max(milliseconds.values()) > UNRESTED
        cool(sampler, self.stopwatch, busy=sum(milliseconds.values()) / 1e3)
        begin, enough = now(), self.min_samples
        while not all(self.is_settled(label, enough) for label in self.calls) and now() - begin < seconds:
            started, busy = now(), 0.0
            for load in loads(self.shuffled(), milliseconds):
                woken = now()
                for batch in self.batches(load):
                    self.sample(batch)
                worked = now() - woken
                cool(sampler, self.stopwatch, busy=worked if rests else 0.0)
                busy += worked
            enough = self.fewest if busy > SLOW_ROUND else self.min_samples
            seconds = max(seconds, 2 * enough * (now() - started))
        summary = sampler.summary(begin, now())
        for timing in self.timings.values():
            timing.clocks = summary
        for label in self.shuffled() * CLOCK_LAUNCHES if self.kernel_clock else ():
            woken = now()
            self.read_clock(label, 1)
            cool(sampler, self.stopwatch, busy=now() - woken)
        return seconds

    def sustained(self, sampler: clocks.Sampler, _: Mapping[str, float]) -> float:
        now, preload_seconds = self.stopwatch.now, self.preload_seconds
        for label in self.shuffled():
            batch = [label] * (self.queue or 8)
            begin, loaded = now(), list[tuple[float, float]]()
            while not _is_loaded(loaded, now() - begin, preload_seconds, self.limit):
                milliseconds = self.measure(batch)
                loaded += ((now() - begin, sample) for sample in milliseconds)
            begin, samples = now(), self.timings[label].samples_ms
            at_most = max(preload_seconds, self.max_seconds / len(self.calls))
            while len(samples) < self.fewest or (
                (spent := now() - begin) < preload_seconds
                or (not self.is_settled(label, self.min_samples) and spent < at_most)
            ):
                self.sample(batch)
            self.timings[label].clocks = sampler.summary(begin, now())
            for _ in range(CLOCK_LAUNCHES):
                self.read_clock(label, len(batch))
        return self.max_seconds

    def is_settled(self, label: str, enough: int) -> bool:
        samples = self.timings[label].samples_ms
        return len(samples) >= enough and relative_error(samples) < self.target

    def shuffled(self) -> list[str]:
        return self.chance.sample(list(self.calls), len(self.calls))

    def batches(self, labels: Sequence[str]) -> Iterator[Sequence[str]]:
        size = self.queue or len(self.calls)
        return (labels[first : first + size] for first in range(0, len(labels), size))

    def measure(self, labels: Sequence[str]) -> list[float]:
        return self.stopwatch.measure([(label, self.calls[label]) for label in labels], self.notify)

    def sample(self, labels: Sequence[str]) -> None:
        for label, sample in zip(labels, self.measure(labels), strict=True):
            self.timings[label].samples_ms.append(sample)

    def read_clock(self, label: str, launches: int) -> None:
        """Reads the clock of the last of some launches one after another."""
        if self.kernel_clock and (read := self.timings[label].clock_ghz) is not None:
            self.stopwatch.measure([(label, self.kernel_clock.around(self.calls[label]))] * launches, self.notify)
            read.append(round(self.kernel_clock.ghz(), 4))


def _is_loaded(samples: Sequence[tuple[float, float]], seconds: float, least: float, limit: float) -> bool:
    """Whether a call has run alone for `least` seconds and its time no longer moves: of its samples (second, ms) the
    last `least` seconds' are as long in their second half as in their first. It began at the clock that the call before
    had left."""
    if seconds < least:
        return False  # at once: the GPU has nothing to do meanwhile
    recent = [sample for second, sample in samples if second > seconds - least]
    half = len(recent) // 2
    steady = half == 0 or abs(statistics.median(recent[:half]) / statistics.median(recent[half:]) - 1) < limit
    return steady or seconds >= LONGEST_PRELOAD * least


def loads(labels: Sequence[str], milliseconds: Mapping[str, float]) -> Iterator[list[str]]:
    """The labels in their order, cut where more than LONGEST_LOAD would be queued."""
    load: list[str] = []
    for label in labels:
        if load and sum(milliseconds[other] for other in [*load, label]) > LONGEST_LOAD:
            yield load
            load = []
        load.append(label)
    yield load


def cool(sampler: clocks.Sampler, stopwatch: Stopwatch, *, busy: float) -> None:
    """Rests three times as long as the card was busy, and on while it is near its power cap: at most LONGEST_REST for
    the one and as long again for the other.

    The rests are most of a group's time and are what keeps an H200 within one step of its highest clock, 1980 MHz.
    NVML's power is an average over a second: busy a quarter of the time a card is seldom near its cap, so that the
    second rest is mostly for what came before the group.
    """
    stopwatch.sleep(min(3 * busy, LONGEST_REST))
    waited = 0.0
    while sampler.near_power_cap() and waited < LONGEST_REST:
        stopwatch.sleep(0.02)
        waited += 0.02


def host_latency(call: Call, *, synchronize: Call) -> float:
    """Median time that the host spends in a call, in microseconds: 20 calls, fewer than a GPU queues."""
    synchronize()
    samples = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        samples.append((time.perf_counter() - start) * 1e6)
    synchronize()
    return statistics.median(samples)
