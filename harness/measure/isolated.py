"""The process that imports a user's kernel. It gets inputs through shared memory, launches, and answers with bytes and
times; harness.measure.verifier holds the other end.

It knows no seed and no exact result, and imports nothing that compares: a kernel that searches its process finds none
of it. Knows no operator.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness import operators
from harness.measure import arenas, process
from harness.measure.isolation import SLACK, Place, Shared
from harness.measure.worker import Deadlines

CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))
"""What loop.cpp asks for: a call by its number, on a copy of the inputs."""


class Kernels(process.Process):
    """What the verifier may ask for."""

    def __init__(self, shared: str, channel: str, loop: str, *ours: Any) -> None:
        """Takes the descriptors, and loads the timing loop: before any file of a user's is imported."""
        super().__init__(*ours)
        self._shared = Shared(int(shared))
        self._storages: dict[str, torch.Tensor] = {}
        stream = 0  # the one that is current now, whatever a kernel makes of it
        if self._device == "cuda":
            torch.zeros(1, device="cuda")
            stream = torch.cuda.current_stream().cuda_stream
        if loop:
            ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
            self._loop = ctypes.CDLL(loop)
            self._native("open", int(channel), stream)

    def _native(self, function: str, *arguments: Any) -> None:
        """Calls a function of loop.cpp."""
        numbers = (ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments)
        if error := getattr(self._loop, f"loop_{function}")(*numbers):
            raise RuntimeError(f"timing loop: CUDA error {error} in {function}")

    def launch(self, case: Any, label: str, places: Mapping[str, Place], scalars: Any, order: int | None) -> float:
        """Launches once on the tensors of shared memory and returns the milliseconds that it took. Their bytes are
        then those after the launch. Addresses stay the same from launch to launch."""
        tensors = {}
        for name, (begin, count, dtype, *layout) in places.items():
            storage = self._storages.setdefault(name, torch.empty(0, dtype=torch.uint8, device=self._device))
            storage.resize_(count).copy_(self._shared.bytes(begin, count))
            tensors[name] = storage.detach().view(dtype).as_strided(*layout)
        took = self.launched(case, label, tensors, scalars, order)
        self.now("check", label)
        for name, (begin, count, *_) in places.items():
            self._shared.bytes(begin, count).copy_(self._storages[name])
        return took

    def prepare(self, cases: Mapping[str, Any], shifts: Mapping[int, int], words: int, scalars: Any) -> None:
        """Binds every case (label -> case, all of one problem) to copies of the inputs, which lie at the beginning of
        shared memory, launches it twice, and rolls each copy by its shift. `words` are flushed."""
        problem = next(iter(cases.values())).problem
        specs = operators.of(problem).input_specs(problem)
        inputs = [{name: arenas.Arena(spec, self._device) for name, spec in specs.items()} for _ in (0, *shifts)]
        self._kept, sizes = 0, [arena.dense.numel() for arena in inputs[0].values()]
        for arena, size in zip(inputs[0].values(), sizes, strict=True):
            arena.dense.copy_(self._shared.bytes(self._kept, size))
            self._kept += size
        self._words = torch.arange(words, dtype=torch.int32, device=self._device)
        memory = self._words.data_ptr(), self._words.nbytes, len(specs), len(inputs)
        table = torch.tensor(sizes + [copy[name].dense.data_ptr() for name in specs for copy in inputs])
        self._native("memory", *memory, table.data_ptr())
        self._native("fill", len(shifts), 0)
        copies = [{name: arena.tensor for name, arena in copy.items()} for copy in inputs]
        self._calls, self._outputs = self._bound(cases, copies, scalars)
        self._calls["empty"] = [lambda: self._sleep(1)] * len(inputs)
        for copy, shift in shifts.items():
            self._native("fill", copy, shift)

    def batch(self, labels: Sequence[str], spin: int) -> list[dict[str, list[int] | None]]:
        """Times calls, one after another, by the draws in the channel. The answer has the strides of their outputs,
        None for one that a call does not return; times go through the channel."""
        outputs_ = next(iter(self._outputs.values())).arenas
        room = SLACK * max(arena.dense.numel() for arena in outputs_.values())
        strides: list[dict[str, list[int] | None]] = []
        failures: list[BaseException] = []

        def call(number: int, copy: int, places: Any) -> int:
            try:
                if copy < 0:
                    self.now("launch", labels[number])
                    return 0
                self._found = self._calls[labels[number]][copy]()  # alive until its copies are queued
                strides.append({})
                for place, (name, arena) in enumerate(outputs_.items()):
                    out = self._found.get(name)
                    whole = (0, 0) if out is None else _whole(name, out, SLACK * arena.dense.numel())
                    places[2 * place], places[2 * place + 1] = whole
                    strides[-1][name] = None if out is None else list(out.stride())
            except BaseException as error:
                failures.append(error)
                return 1
            return 0

        sums = torch.zeros(len(labels), dtype=torch.int32, device=self._device)
        self._sleep(spin)
        kept = self._shared.bytes(self._kept, room * len(outputs_)).data_ptr()
        try:
            self._native("run", len(labels), sums.data_ptr(), len(outputs_), kept, room, CALL(call))
        except RuntimeError as error:
            raise (*failures, error)[0] from None
        return strides

    def cupti(self, loads: Sequence[Sequence[str]], rounds: int, shifts: Sequence[int]) -> list[Any]:
        """What CUPTI records of the prepared calls: the events of its trace, and the numbers of calls with new
        inputs."""
        from harness.measure import cupti

        upcoming, flushed = iter(shifts), self._words.clone()
        trace, fresh = cupti.record(
            [{label: self._calls[label][1] for label in load} for load in loads],
            lambda: self._native("fill", 1, next(upcoming)),
            flushed.bitwise_not_,
            lambda: self._sleep(40_000_000),
            lambda seconds: time.sleep(min(3 * seconds, 1.0)),
            rounds,
        )
        return [trace, sorted(fresh)]

    def _sleep(self, cycles: int) -> dict[str, Any]:
        """Keeps a GPU busy; returns the outputs of a call that has none."""
        if self._device == "cuda":
            torch.cuda._sleep(cycles)
        return {}


def _whole(name: str, out: torch.Tensor, most: int) -> tuple[int, int]:
    """Address and bytes of an output. Raises TypeError for a tensor that only will have values, ValueError for one
    that is spread too far."""
    if type(out) not in (torch.Tensor, torch.nn.Parameter) or out.is_neg() or out.is_conj():
        raise TypeError(f"{name}: got {type(out).__name__}, expected a plain torch.Tensor that holds its values")
    reach = 1 + sum((size - 1) * stride for size, stride in zip(out.shape, out.stride(), strict=True))
    if reach * out.element_size() > most:
        raise ValueError(f"{name}: got strides {out.stride()}, expected at most {SLACK} times the memory of its values")
    return out.data_ptr(), reach * out.element_size()


def main(descriptor: str, loader: str, on: str, deadlines: str, *shared: str) -> None:
    """Answers the verifier until it hangs up."""

    def make(connection: Any, watch: process.Watch) -> Kernels:
        return Kernels(*shared, connection, importlib.import_module(loader), on, watch)

    process.serve(int(descriptor), make, Deadlines(**json.loads(deadlines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
