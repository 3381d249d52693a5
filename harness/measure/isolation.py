"""The process of a user's kernel from outside, and the memory that it shares. Torch is not imported before it is used,
so that processes can start side by side. Knows no operator.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.measure.worker import Worker

if TYPE_CHECKING:
    import torch

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
        self._mapped: list[torch.Tensor] = []  # the last one has all of it; the driver knows the addresses of each

    def bytes(self, begin: int, count: int) -> torch.Tensor:
        """Some of its bytes, as a tensor; pinned, for copies that do not hold up the host."""
        import torch

        if not self._mapped or begin + count > self._mapped[-1].numel():
            if begin + count > os.fstat(self.descriptor).st_size:
                os.ftruncate(self.descriptor, begin + count)
            self._mapped.append(torch.frombuffer(mmap.mmap(self.descriptor, begin + count), dtype=torch.uint8))
            if torch.cuda.is_initialized():
                torch.cuda.cudart().cudaHostRegister(self._mapped[-1].data_ptr(), begin + count, 0)
        return self._mapped[-1][begin : begin + count]

    def close(self) -> None:
        """Forgets it. The driver must as well: it refuses to pin what the system maps at the same addresses later."""
        import torch

        for mapped in self._mapped if torch.cuda.is_initialized() else ():
            torch.cuda.cudart().cudaHostUnregister(mapped.data_ptr())
        self._mapped.clear()
        os.close(self.descriptor)


class Isolation:
    """A process for kernels, started at once; nobody waits for its start before the first call. With `loop`, a build of
    loop.cpp, it can time."""

    def __init__(self, loop: Path | None, *worker: Any) -> None:
        """`worker`: what a Worker takes behind its environment."""
        self.shared, self.times = Shared(), loop is not None
        self._channel, theirs = socket.socketpair()
        with theirs:
            descriptors = self.shared.descriptor, theirs.fileno()
            extra = (*map(str, descriptors), str(loop or ""))
            module = "harness.measure.isolated"
            self.worker = Worker({}, *worker, module=module, extra=extra, descriptors=descriptors)

    def end(self) -> None:
        """Ends the process and closes what it shared."""
        self.worker.kill()
        self.shared.close()
        self._channel.close()

    def launch(
        self, case: Any, label: str, tensors: Mapping[str, torch.Tensor], scalars: Any, order: int | None
    ) -> float:
        """Launches the case on these values there, and reads back what all tensors and their surroundings hold then.
        Returns the milliseconds that it is said to have taken."""
        import torch

        begin, places, storages = 0, dict[str, Place](), dict[str, torch.Tensor]()
        for name, one in tensors.items():
            storages[name] = torch.empty(0, dtype=torch.uint8, device=one.device).set_(one.untyped_storage())
            size = storages[name].numel()
            places[name] = begin, size, one.dtype, tuple(one.shape), one.stride(), one.storage_offset()
            begin += size
        self.shared.bytes(0, begin)
        for name, place in places.items():
            self.shared.bytes(*place[:2]).copy_(storages[name])
        took = self.worker.call("launch", case, label, places, dict(scalars), order)
        for name, place in places.items():
            storages[name].copy_(self.shared.bytes(*place[:2]))
        return float(took)

    def batch(self, labels: Sequence[str], spin: int, draws: bytes) -> tuple[list[tuple[float, int, int]], Any]:
        """Milliseconds, checksum and whether it was queued ahead, of each call; and the strides of their outputs."""
        self._channel.sendall(draws)
        strides = self.worker.call("batch", labels, spin)
        found = self._channel.recv(16 * len(labels) + 1, socket.MSG_DONTWAIT)
        if len(found) != 16 * len(labels):
            raise ValueError(f"timing loop: got {len(found)} bytes of times for {len(labels)} calls")
        return list(struct.iter_unpack("<dII", found)), strides
