"""Memory that kernels of attention and of its gradients find zero and leave zero: no launch has to zero it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor


class Workspaces:
    """The workspaces of one GPU: one for each stream and for each launch in a CUDA graph, zeroed when it is taken.

    A kernel leaves what it needs zero as it found it: the whole workspace, or counters at its beginning; it reads
    nothing behind these that it has not written. So the launches of a stream share a workspace, until one needs a
    larger. A graph may be replayed beside any stream, so every launch that is captured has its own for good.
    """

    SLAB, SLOT = 2**18, 16

    def __init__(self) -> None:
        self.of_streams: dict[int, tuple[int, int]] = {}
        """Stream -> address and bytes."""
        self.slabs: list[Tensor] = []
        self.used = self.SLAB
        self.lock = threading.Lock()

    def of(self, stream: int, size: int) -> tuple[int, Tensor | None]:
        """(address, what must live until the launch): `size` bytes for a launch on this, the current stream."""
        if torch.cuda.is_current_stream_capturing():
            return self._take(size, capturing=True)
        address, enough = self.of_streams.get(stream, (0, -1))
        if size > enough:
            enough = 1 << max(size - 1, 0).bit_length()  # so that growing sizes end in few workspaces
            address = self._take(enough, capturing=False)[0]
            self.of_streams[stream] = address, enough
        return address, None

    def _take(self, size: int, *, capturing: bool) -> tuple[int, Tensor | None]:
        size = max(size, 1)  # of none, an address
        with self.lock:
            if self.used + size > self.SLAB:
                if capturing:  # memory of the graph, zeroed by each replay
                    workspace = torch.zeros(size, dtype=torch.uint8, device="cuda")
                    return workspace.data_ptr(), workspace
                self.slabs.append(_zeros(max(size, self.SLAB)))
                self.used = 0
            address = self.slabs[-1].data_ptr() + self.used
            self.used += -(-size // self.SLOT) * self.SLOT
            return address, None


def _zeros(size: int) -> Tensor:
    """So many bytes of the current GPU, zero for every stream. By a thread of its own: what the caller's allocates may
    come from a pool of memory that is given to others while the process runs on, such as that in which torch.compile
    with mode="reduce-overhead" warms up."""
    gpu = torch.cuda.current_device()

    def allocate() -> Tensor:
        with torch.cuda.device(gpu):
            found = torch.zeros(size, dtype=torch.uint8, device="cuda")
            torch.cuda.current_stream().synchronize()
        return found

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(allocate).result()
