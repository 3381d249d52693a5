"""The process of a user's kernel from outside, and the memory that it shares. Torch is not imported before it is used,
so that processes can start side by side. Knows no operator.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.measure.worker import Deadlines, Worker

if TYPE_CHECKING:
    import torch

PAGE = 4096
SLOTS = 2
"""Calls of one batch whose outputs can be kept."""
SLACK = 2
"""An output that a kernel returns may reach over so many times the memory of a contiguous one."""


Place = tuple[int, int, Any, tuple[int, ...], tuple[int, ...], int]
"""A tensor in shared memory: where the bytes of its storage begin, how many they are, and its view of them: dtype,
shape, strides and offset."""


class Shared:
    """Memory of two processes. It only grows: the other one cannot pull it from under this one."""

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("twinkernels", os.MFD_ALLOW_SEALING)
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.descriptor = descriptor
        self._all: torch.Tensor | None = None
        self._pinned: list[torch.Tensor] = []  # the driver knows their addresses

    def bytes(self, begin: int, count: int) -> torch.Tensor:
        """Some of its bytes, as a tensor."""
        import torch

        if self._all is None or begin + count > self._all.numel():
            if begin + count > os.fstat(self.descriptor).st_size:
                os.ftruncate(self.descriptor, begin + count)
            self._all = torch.frombuffer(mmap.mmap(self.descriptor, begin + count), dtype=torch.uint8)
            if torch.cuda.is_initialized():  # pinned, for copies that do not hold up the host
                torch.cuda.cudart().cudaHostRegister(self._all.data_ptr(), self._all.numel(), 0)
                self._pinned.append(self._all)
        return self._all[begin : begin + count]

    def close(self) -> None:
        """Forgets it. The driver must as well: it refuses to pin what the system maps at the same addresses later."""
        if self._pinned:
            import torch

            for pinned in self._pinned:
                torch.cuda.cudart().cudaHostUnregister(pinned.data_ptr())
        self._all, self._pinned = None, []
        os.close(self.descriptor)


class Isolation:
    """A process for kernels, started at once; nobody waits for its start before the first call. With `loop`, a build of
    loop.cpp, it can time."""

    def __init__(
        self,
        loader: str,
        on: str,
        log: Path,
        deadlines: Deadlines,
        told: Callable[[str, str], object],
        loop: Path | None = None,
    ) -> None:
        self.shared, self.times = Shared(), loop is not None
        theirs_draws, self._draws = os.pipe()
        self._results, theirs_results = os.pipe()
        os.set_blocking(self._results, False)
        theirs = (self.shared.descriptor, theirs_draws, theirs_results)
        extra = (*map(str, theirs), str(loop or ""))
        module = "harness.measure.isolated"
        self.worker = Worker({}, loader, on, log, deadlines, told, module=module, extra=extra, descriptors=theirs)
        os.close(theirs_draws)
        os.close(theirs_results)

    def end(self) -> None:
        """Ends the process and closes what it shared."""
        self.worker.kill()
        self.shared.close()
        for descriptor in (self._draws, self._results):
            os.close(descriptor)

    def launch(
        self, case: Any, label: str, tensors: Mapping[str, torch.Tensor], scalars: Any, seed: int | None
    ) -> float:
        """Launches the case on these values there, and reads back what all tensors and their surroundings hold then.
        Returns the milliseconds that it is said to have taken."""
        import torch

        begin, places = 0, dict[str, Place]()
        storages = {name: torch.empty(0, dtype=torch.uint8, device=one.device) for name, one in tensors.items()}
        for name, tensor in tensors.items():
            size = storages[name].set_(tensor.untyped_storage()).numel()
            places[name] = begin, size, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
            begin += -(-size // PAGE) * PAGE
        self.shared.bytes(0, begin)
        for name, place in places.items():
            self.shared.bytes(*place[:2]).copy_(storages[name])
        took = self.worker.call("launch", case, label, places, dict(scalars), seed)
        for name, place in places.items():
            storages[name].copy_(self.shared.bytes(*place[:2]))
        return float(took)

    def batch(self, labels: Sequence[str], spin: int, draws: bytes) -> tuple[list[tuple[float, int, int]], Any]:
        """Milliseconds, checksum and whether it was queued ahead, of each call; and the strides of their outputs."""
        os.write(self._draws, draws)
        strides = self.worker.call("batch", labels, spin)
        found = os.read(self._results, 16 * len(labels) + 1)
        if len(found) != 16 * len(labels):
            raise ValueError(f"timing loop: got {len(found)} bytes of times for {len(labels)} calls")
        return list(struct.iter_unpack("<dII", found)), strides
