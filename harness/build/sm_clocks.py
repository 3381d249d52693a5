"""The SM clock at which any kernel runs: every multiprocessor's own counters, read before it and after it."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.build.cuda import build_alone, gpu_arch
from harness.operators.errors import LaunchError

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = "sm_clocks"
"""The kernel's name below cuda_kernels/."""


class ClockReadings(ctypes.Structure):
    """cuda_kernels/sm_clocks.cu, field by field."""

    _fields_ = [("of", ctypes.c_void_p)]


class SmClocks:
    """Reads the clocks by `library`, a build of cuda_kernels/sm_clocks.cu for `device`, on its current stream."""

    def __init__(self, library: Any, multiprocessors: int, device: str) -> None:
        import torch

        self._library = library
        self._readings = torch.zeros(2, multiprocessors, 2, dtype=torch.int64, device=device)

    def around(self, call: Callable[[], object]) -> Callable[[], None]:
        """`call` between two readings."""

        def read_around() -> None:
            self._readings.zero_()
            self._read(self._readings[0])
            call()
            self._read(self._readings[1])

        return read_around

    def ghz(self) -> float:
        """Cycles a nanosecond between the last two readings, on the median multiprocessor: of the call, and of a few
        microseconds in which it began and ended. Waits for the device. Raises RuntimeError where no multiprocessor was
        read twice."""
        before, after = self._readings.tolist()
        rates = [
            (cycles - first_cycles) / (nanoseconds - first_nanoseconds)
            for (first_cycles, first_nanoseconds), (cycles, nanoseconds) in zip(before, after, strict=True)
            if first_nanoseconds and nanoseconds > first_nanoseconds
        ]
        if not rates:
            raise RuntimeError("SM clocks: got no multiprocessor with two readings, expected a call that `around` made")
        return statistics.median(rates)

    def _read(self, readings: Tensor) -> None:
        import torch

        stream = torch.cuda.current_stream().cuda_stream if readings.is_cuda else None
        if code := self._library.launch(ctypes.byref(ClockReadings(readings.data_ptr())), ctypes.c_void_p(stream)):
            raise LaunchError(f"{SOURCE}: CUDA error {code}", code)


def of_this_gpu() -> SmClocks:
    """The clocks of torch's current GPU. Raises CompileError, where there is no compiler too."""
    import torch

    built = build_alone(SOURCE, {}, gpu_arch())
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return SmClocks(ctypes.CDLL(str(built.library)), properties.multi_processor_count, "cuda")
