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
from harness.measure.isolation import SLACK, SLOTS, Place, Shared
from harness.measure.worker import Deadlines


class Output(ctypes.Structure):
    """loop.cpp, field by field."""

    _fields_ = [("address", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


ABOUT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(Output))


class Kernels(process.Process):
    """What the verifier may ask for."""

    def __init__(self, *ours: Any, shared: str, draws: str, results: str, loop: str) -> None:
        """Takes the descriptors, and loads the timing loop: before any file of a user's is imported."""
        super().__init__(*ours)
        self._shared = Shared(int(shared))
        self._storages: dict[str, torch.Tensor] = {}
        self._stream = 0  # the one that is current now, whatever a kernel makes of it
        if cuda := self._device == "cuda":
            torch.zeros(1, device="cuda")
            self._stream = torch.cuda.current_stream().cuda_stream
        if loop:
            self._loop = ctypes.CDLL(loop)
            if error := self._loop.loop_open(cuda, int(draws), int(results)):
                raise RuntimeError(f"timing loop: got error {error} of the CUDA driver, expected a driver that works")

    def load(self, case: Any, label: str) -> str:
        """Loads a case and returns its label: what it leaves out."""
        self.now("load", label)
        return str(self._load(case).label)

    def launch(self, case: Any, label: str, places: Mapping[str, Place], scalars: Any, seed: int | None) -> float:
        """Launches once on the tensors of shared memory and returns the milliseconds that it took. Their bytes are
        then those after the launch. Addresses stay the same from launch to launch."""
        variant, tensors = self._load(case), {}
        for name, (begin, count, dtype, *layout) in places.items():
            if name not in self._storages or self._storages[name].numel() != count:
                self._storages[name] = torch.empty(count, dtype=torch.uint8, device=self._device)
            self._storages[name].copy_(self._shared.bytes(begin, count))
            tensors[name] = self._storages[name].detach().view(dtype).as_strided(*layout)
        if seed is not None:
            variant.schedule(seed)
        self.now("launch", label)
        start = time.perf_counter()
        variant.launch(tensors, scalars)
        self._synchronize()
        took = (time.perf_counter() - start) * 1e3
        self.now("check", label)
        for name, (begin, count, *_) in places.items():
            self._shared.bytes(begin, count).copy_(self._storages[name])
        return took

    def of_compilers(self, case: Any) -> dict[str, Any]:
        """What a row says of the compiled code."""
        return dict(self._load(case).of_compilers())

    def prepare(self, cases: Mapping[str, Any], shifts: Mapping[int, int], words: int, most: int, scalars: Any) -> None:
        """Binds every case (label -> case, all of one problem) to copies of the inputs, which lie at the beginning of
        shared memory, launches it twice, and rolls each copy by its shift. `words` are flushed; a batch has `most`
        calls."""
        problem = next(iter(cases.values())).problem
        specs = operators.of(problem).input_specs(problem)
        inputs = [{name: arenas.Arena(spec, self._device) for name, spec in specs.items()} for _ in (0, *shifts)]
        self._kept, self._inputs = 0, inputs
        for arena in inputs[0].values():
            arena.dense.copy_(self._shared.bytes(self._kept, arena.dense.numel()))
            self._kept += arena.dense.numel()
        self._words = torch.arange(words, dtype=torch.int32, device=self._device)
        self._sums = torch.zeros(most, dtype=torch.int32, device=self._device)
        sizes = [arena.dense.numel() for arena in inputs[0].values()]
        addresses = [copy[name].dense.data_ptr() for name in specs for copy in inputs]
        self._loop.loop_memory(
            *(ctypes.c_void_p(self._words.data_ptr()), ctypes.c_uint64(words), ctypes.c_void_p(self._sums.data_ptr())),
            *((ctypes.c_uint64 * len(sizes))(*sizes), len(sizes)),
            *((ctypes.c_void_p * len(addresses))(*addresses), len(inputs)),
        )
        self.fill(len(shifts), 0)
        copies = [{name: arena.tensor for name, arena in copy.items()} for copy in inputs]
        self._calls, self._outputs = self._bound(cases, copies, scalars)
        self._calls["empty"] = [lambda: self._sleep(1)] * len(inputs)
        for copy, shift in shifts.items():
            self.fill(copy, shift)

    def fill(self, copy: int, shift: int) -> None:
        """One copy of the inputs anew."""
        if error := self._loop.loop_fill(copy, ctypes.c_uint64(shift), ctypes.c_void_p(self._stream)):
            raise RuntimeError(f"timing loop: got CUDA error {error} while inputs were copied")

    def batch(self, labels: Sequence[str], spin: int) -> list[dict[str, list[int] | None]]:
        """Times calls, one after another, by the draws in the pipe. The answer has the strides of their outputs, None
        for one that a call does not return; times go through the other pipe."""
        arenas_ = next(iter(self._outputs.values())).arenas
        names, sizes = list(arenas_), [arena.dense.numel() for arena in arenas_.values()]
        places = [SLACK * sum(sizes[:number]) for number in range(len(sizes))]
        kept = self._shared.bytes(self._kept, SLOTS * SLACK * sum(sizes))
        strides: list[dict[str, list[int] | None]] = []
        failures: list[BaseException] = []
        holding: list[Any] = []

        def about(number: int) -> int:
            self.now("launch", labels[number].removesuffix(" again"))
            return 0

        def call(number: int, copy: int, outputs: Any) -> int:
            try:
                label = labels[number].removesuffix(" again")
                found = self._calls[label][copy]()
                holding[:] = [found]
                strides.append({})
                for place, name in enumerate(names):
                    out = found.get(name)
                    outputs[place] = _whole(name, out, SLACK * sizes[place]) if out is not None else Output(None, 0)
                    strides[-1][name] = None if out is None else list(out.stride())
            except BaseException as error:
                failures.append(error)
                return 1
            return 0

        self._sums.zero_()
        self._sleep(spin)
        error = self._loop.loop_run(
            *(len(labels), ctypes.c_void_p(self._stream), ABOUT(about), CALL(call), len(names)),
            *(ctypes.c_void_p(kept.data_ptr()), ctypes.c_uint64(SLACK * sum(sizes))),
            (ctypes.c_uint64 * len(places))(*places),
        )
        if failures:
            raise failures[0]
        if error:
            raise RuntimeError(f"CUDA error {error} in a batch of {len(labels)} calls")
        return strides

    def cupti(self, loads: Sequence[Sequence[str]], rounds: int, shifts: Sequence[int]) -> list[Any]:
        """What CUPTI records of the prepared calls: the events of its trace, and the numbers of calls with new
        inputs."""
        from harness.measure import cupti

        upcoming, flushed = iter(shifts), self._words.clone()
        trace, fresh = cupti.record(
            [{label: self._calls[label][1] for label in load} for load in loads],
            lambda: self.fill(1, next(upcoming)),
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


def _whole(name: str, out: torch.Tensor, most: int) -> Output:
    """The memory of an output. Raises TypeError for a tensor that only will have values, ValueError for one that is
    spread too far."""
    if type(out) not in (torch.Tensor, torch.nn.Parameter) or out.is_neg() or out.is_conj():
        raise TypeError(f"{name}: got {type(out).__name__}, expected a plain torch.Tensor that holds its values")
    reach = 1 + sum((size - 1) * stride for size, stride in zip(out.shape, out.stride(), strict=True))
    if reach * out.element_size() > most:
        raise ValueError(f"{name}: got strides {out.stride()}, expected at most {SLACK} times the memory of its values")
    return Output(out.data_ptr(), reach * out.element_size())


def main(descriptor: str, loader: str, on: str, deadlines: str, *opened: str) -> None:
    """Answers the verifier until it hangs up."""
    theirs = dict(zip(("shared", "draws", "results", "loop"), opened, strict=True))

    def make(connection: Any, watch: process.Watch) -> Kernels:
        return Kernels(connection, importlib.import_module(loader), on, watch, **theirs)

    process.serve(int(descriptor), make, Deadlines(**json.loads(deadlines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
