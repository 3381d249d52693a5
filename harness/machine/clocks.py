"""SM clock, power and throttle reasons of the current GPU, sampled by a thread while something is timed (NVML)."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clock",
}
"""NVML's clocks-event bits by name (nvml.h, nvmlClocksEventReason*)."""
NEAR_CAP = 0.6
"""Share of its power limit from which on a card counts as near it."""


class Device:
    """NVML's view of torch's current GPU. Every question that the driver does not answer is None."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle

    def ask(self, question: str, *arguments: Any) -> Any:
        """`nvmlDeviceGet<question>(handle, *arguments)`, or None where it is not supported or not permitted."""
        function = getattr(self.nvml, f"nvmlDeviceGet{question}", None)
        if function is None:
            return None
        try:
            return function(self.handle, *arguments)
        except self.nvml.NVMLError:
            return None

    def watts(self, question: str) -> float | None:
        """Watts of "PowerUsage", the present draw, or of "EnforcedPowerLimit"; None where it is unknown."""
        milliwatts = self.ask(question)
        return None if milliwatts is None else milliwatts / 1000

    def throttle(self) -> set[str]:
        """Names of REASONS that hold the clock back now."""
        bits = self.ask("CurrentClocksEventReasons")
        if bits is None:  # drivers before 535 know it by its old name
            bits = self.ask("CurrentClocksThrottleReasons") or 0
        return {name for bit, name in REASONS.items() if bits & bit}


def device(uuid: str | None = None) -> Device | None:
    """The GPU with this uuid (torch's, with or without "GPU-"); None without NVML or where it cannot be told which.
    NVML knows nothing of CUDA_VISIBLE_DEVICES: only where there is a single GPU it need not be found by its uuid."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return Device(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{(uuid or '').removeprefix('GPU-')}"))
        except pynvml.NVMLError:  # hidden behind a MIG slice, an old driver or an old torch
            single = pynvml.nvmlDeviceGetCount() == 1
            return Device(pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)) if single else None
    except pynvml.NVMLError:
        return None


class Sampler:
    """Context manager that samples `source` at `hz` in a thread. Without a source every summary is None."""

    def __init__(self, source: Device | None, *, hz: float = 50.0, now: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._period = 1 / hz
        self._now = now
        self._samples: list[tuple[float, int | None, float | None, set[str]]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clocks", daemon=True)

    def __enter__(self) -> Sampler:
        if self._source:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._source:
            self._thread.join()

    def _run(self) -> None:
        source = self._source
        assert source is not None
        while not self._stopped.is_set():
            sm_mhz = source.ask("ClockInfo", source.nvml.NVML_CLOCK_SM)
            self._samples.append((self._now(), sm_mhz, source.watts("PowerUsage"), source.throttle()))
            self._stopped.wait(self._period)

    def near_power_cap(self) -> bool:
        """Whether the card now draws more than NEAR_CAP of its power limit. False when unknown."""
        if self._source is None:
            return False
        power, limit = map(self._source.watts, ("PowerUsage", "EnforcedPowerLimit"))
        return bool(power and limit and power > NEAR_CAP * limit)

    def summary(self, begin: float, end: float) -> dict[str, Any] | None:
        """{sm_mhz, power_w: medians; throttle: sorted names; samples: count} between two moments of `now`. Samples
        taken while the GPU idled between two batches say nothing of the kernels and are left out where there are
        others."""
        window = [sample for sample in list(self._samples) if begin <= sample[0] <= end]
        busy = [sample for sample in window if "gpu_idle" not in sample[3]] or window
        if not busy:
            return None

        def median(values: list[Any]) -> float | None:
            known = [value for value in values if value is not None]
            return round(statistics.median(known), 1) if known else None

        return {
            "sm_mhz": median([sample[1] for sample in busy]),
            "power_w": median([sample[2] for sample in busy]),
            "throttle": sorted(set().union(*(sample[3] for sample in busy)) - {"gpu_idle"}),
            "samples": len(busy),
        }
