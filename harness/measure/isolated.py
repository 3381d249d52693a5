"""The process that imports a user's kernel, for harness.measure.verifier. It knows no seed, no operator and no exact
result, and imports nothing that compares: a kernel that searches its process finds none of it.
"""

import ctypes
import mmap
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness import operators
from harness.measure import arenas, cupti, process, timing
from harness.measure.worker import SHARED
from harness.operators.memory import reach


class Kernels(process.Process):
    """What the verifier may ask for."""

    def __init__(self, shared: Sequence[str], loader: str, on: str, connection: Any, watch: process.Watch) -> None:
        """Takes the descriptors, and loads the timing loop: before any file of a user's is imported."""
        memory, channel, loop = shared
        super().__init__(connection, loader, on, watch)
        self._shared, self._pinned = torch.frombuffer(mmap.mmap(int(memory), SHARED), dtype=torch.uint8), 0
        self._storages: dict[str, torch.Tensor] = {}
        self._sleep: Any = torch.cuda._sleep if self._device == "cuda" else lambda cycles: None
        torch.zeros(1, device=self._device)  # a GPU has a context from now on
        if loop:
            # All calls use the stream that is current now, whatever a kernel sets later.
            stream = torch.cuda.current_stream().cuda_stream if self._device == "cuda" else 0
            ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
            self._loop = ctypes.CDLL(loop)
            self._native("open", int(channel), stream)

    def _native(self, function: str, *arguments: Any) -> int:
        numbers = (ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments)
        return int(getattr(self._loop, f"loop_{function}")(*numbers))

    def _memory(self, count: int) -> torch.Tensor:
        """The first bytes of shared memory; pinned, for copies that do not hold up the host."""
        if self._device == "cuda" and count > self._pinned:
            if self._pinned:
                torch.cuda.cudart().cudaHostUnregister(self._shared.data_ptr())
            torch.cuda.cudart().cudaHostRegister(self._shared.data_ptr(), count, 0)
            self._pinned = count
        return self._shared[:count]

    def launch(self, case: Any, label: str, sizes: Any, layouts: dict[str, Any], scalars: Any, order: Any) -> float:
        """Launches once on tensors that shared memory holds one after another, and returns the milliseconds that it
        took. Their bytes are then those after the launch. Addresses stay the same from launch to launch."""
        tensors, parts = {}, self._memory(sum(sizes)).split(sizes)
        for part, (name, (dtype, *layout)) in zip(parts, layouts.items(), strict=True):
            storage = self._storages.setdefault(name, torch.empty(0, dtype=torch.uint8, device=self._device))
            tensors[name] = storage.resize_(len(part)).copy_(part).detach().view(dtype).as_strided(*layout)
        took = self.launched(case, label, tensors, scalars, order)
        self.now("check", label)
        for part, name in zip(parts, layouts, strict=True):
            part.copy_(self._storages[name])
        return took

    def prepare(self, problem: Any, cases: Mapping[str, Any], copies: int, words: int, room: int, scalars: Any) -> None:
        """Binds every case of the problem (label -> case) to copies of the inputs, which lie at the beginning of shared
        memory, and launches it twice. `words` are flushed. An output has at most `room` bytes."""
        operator = operators.of(problem)
        specs, self._names = operator.input_specs(problem), [*operator.output_specs(problem)]
        inputs = [{name: arenas.Arena(spec, self._device) for name, spec in specs.items()} for _ in range(copies)]
        self._dense = [[arena.dense for arena in copy.values()] for copy in inputs]
        sizes = [len(dense) for dense in self._dense[0]]
        self._bases = [part.to(self._device, copy=True) for part in self._memory(sum(sizes)).split(sizes)]
        arenas.roll(self._dense[-1], self._bases, 0)
        places = zip(self._bases, *self._dense, strict=True)
        table = torch.tensor([[len(each[0]), *(one.data_ptr() for one in each)] for each in places])
        self._words = torch.arange(words, dtype=torch.int32, device=self._device)
        flushed, self._room = (self._words.data_ptr(), self._words.nbytes), room
        self._native("memory", *flushed, copies + 2, table.numel(), table.data_ptr(), room * len(self._names))
        tensors = [{name: arena.tensor for name, arena in copy.items()} for copy in inputs]
        self._calls = self._bound(cases, tensors, scalars)
        unwritten = arenas.make_outputs(problem, self._device).tensors
        self._calls["empty"] = [lambda: self._sleep(1) or unwritten] * copies

    def batch(self, labels: Sequence[str], spin: int) -> tuple[list[list[list[int] | None]], list[int]]:
        """Times calls, one after another, by the draws in the channel; times go back through it. The answer has the
        strides of their outputs, None for one that a call does not return, and the checksums of their flushes."""
        strides: list[list[list[int] | None]] = []
        sums = torch.zeros(len(labels), dtype=torch.int32, device=self._device)
        self._sleep(spin)
        for label in labels:
            self.now("launch", label)
            found = self._calls[label][self._native("begin", sums.data_ptr())]()  # alive until its copies are queued
            outputs = {name: found.get(name) for name in self._names}
            written = [each for one in outputs.items() for each in _whole(*one, self._room)]
            self._native("end", len(outputs), (ctypes.c_uint64 * len(written))(*written))
            strides.append([None if out is None else list(out.stride()) for out in outputs.values()])
        if error := self._native("finish"):
            raise RuntimeError(f"timing loop: CUDA error {error}")
        return strides, sums.tolist()

    def cupti(self, loads: Sequence[Sequence[str]], rounds: int) -> list[Any]:
        """What CUPTI records of the prepared calls, on the last copy of the inputs, which is never drawn: the events of
        its trace, and the numbers of calls with new inputs."""
        calls = [{label: self._calls[label][-1] for label in load} for load in loads]
        given, shifts, watch = self._dense[-1], iter((1, 2)), timing.CudaStopwatch()
        trace, fresh = cupti.record(calls, lambda: arenas.roll(given, self._bases, next(shifts)), watch, None, rounds)
        return [trace, sorted(fresh)]


def _whole(name: str, out: torch.Tensor | None, most: int) -> tuple[int, int]:
    """Address and bytes of an output. Raises TypeError for a tensor that only will have values, ValueError for one
    that is spread too far."""
    if out is None:
        return 0, 0
    if type(out) not in (torch.Tensor, torch.nn.Parameter) or out.is_neg() or out.is_conj():
        raise TypeError(f"{name}: got {type(out).__name__}, expected a plain torch.Tensor that holds its values")
    if (count := reach(out)) > most:
        raise ValueError(f"{name}: got strides {out.stride()} over {count} bytes, expected at most {most}")
    return out.data_ptr(), count


def main(descriptor: str, loader: str, on: str, deadlines: str, _log: str, *shared: str) -> None:
    process.serve(descriptor, deadlines, lambda *ours: Kernels(shared, loader, on, *ours))


if __name__ == "__main__":
    main(*sys.argv[1:])
