"""What judges a user's kernel, in a process that never imports it: this one makes the inputs, knows the exact result,
compares, and holds the clock that the reported times must agree with.

The kernel runs in a process of its own, harness.measure.isolated. What comes back from there is bytes of tensors and
times, never a verdict. Knows no operator.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harness import operators
from harness.measure import arenas, timing
from harness.measure.isolation import SLACK, Isolation
from harness.operators.protocol import Problem, Sample, Verdict

MOST_COPIES = 64
"""Copies of inputs: fewer than twice the L2 cache needs where one is smaller than a 64th of that."""
KEPT = 3
"""Outputs of timed calls that are compared with the exact result, of each kernel."""
CPU_CACHE = 2**17
"""Bytes that stand for the L2 cache on a CPU, where only tests time."""
LONGEST_BATCH = 32
"""Calls of one batch under the verifier's clock; twice as many in the second one."""
CLOCK_SECONDS, CLOCK_TRIES = 0.02, 3
CLOCK_FACTOR, CLOCK_SLACK, CLOCK_GAP = 1.25, 2.5e-4, 1e-5
"""The verifier's clock may show so many times the reported time, so many seconds a batch more, and so many a call."""
Failure = tuple[str, str, str]
"""Status, check and reason of a row."""
FLUSHED = "the checksum of the L2 flush is not the one that its key gives: the flush did not run as it should"
FACTOR = 0x9E3779B1 - 2**32
"""Of loop.cpp's flush, as a signed word."""
chance = random.SystemRandom()


class Stopwatch:
    """timing.Stopwatch over calls of one problem's `cases` (label -> case) in the kernel's process, bound to copies of
    inputs that it draws. `failures` comes last."""

    now, sleep = staticmethod(time.monotonic), staticmethod(time.sleep)

    def __init__(self, isolation: Isolation, problem: Problem, device: str, cases: Mapping[str, Any]) -> None:
        self.isolation, self.problem, self.device = isolation, problem, device
        self.exposed: set[str] = set()
        operator = operators.of(problem)
        self._sample = operator.inputs(problem, operator.distributions[0], chance.getrandbits(31), device)
        self._cases, self._specs = cases, operator.output_specs(problem)
        inputs = arenas.Inputs(operator.input_specs(problem), self._sample)
        self._dense = {name: arena.dense.clone() for name, arena in inputs.arenas.items()}
        cache = torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else CPU_CACHE
        size = sum(one.numel() for one in self._dense.values())
        copies = max(2, min(MOST_COPIES, -(-2 * cache // size)))
        self._words, self._flushes = 2 * cache // 4, list[tuple[int, int]]()
        self._shifts = {copy: chance.getrandbits(32) for copy in range(1, copies + 1)}
        self._seen = dict.fromkeys(cases, 0)
        # Of timed calls: by how much their inputs had been rolled, and their outputs.
        self.kept: dict[str, list[tuple[int, dict[str, torch.Tensor]]]] = {label: [] for label in cases}
        self._spin = 1_000_000
        sizes = [arenas.Arena(spec, "cpu").dense.numel() for spec in self._specs.values()]
        self._begin, self._room = size, SLACK * max(sizes)
        isolation.shared.bytes(0, size + self._room * len(sizes))
        isolation.shared.bytes(0, size).copy_(torch.cat([*self._dense.values()]))
        isolation.worker.call("prepare", dict(cases), self._shifts, self._words, dict(self._sample.scalars))

    def measure(self, batch: Sequence[tuple[str, object]], notify: timing.Notify) -> list[float]:
        labels = [label.removesuffix(" again") for label, _ in batch]
        while True:
            results = self._batch(labels)
            ahead = all(ahead for _, _, ahead in results)
            if ahead or self._spin >= timing.CudaStopwatch.LONGEST_SPIN:
                self.exposed.update(() if ahead else (label for label, _ in batch))
                return [milliseconds for milliseconds, _, _ in results]
            self._spin *= 2

    def _batch(self, labels: Sequence[str], *, warm: bool = False) -> list[tuple[float, int, int]]:
        """One batch. `warm`: without flushes, on inputs that stay; nothing is kept of it."""
        draws, keys = b"", [chance.getrandbits(31) for _ in labels]
        kept = None if warm else self._drawn(labels)
        for number, key in enumerate(keys):
            copy, shift = 1 + chance.randrange(len(self._shifts)), chance.getrandbits(32)
            draws += struct.pack("<IIIIQ", key, not warm, copy, number == kept, shift)
            if number == kept:
                rolled = self._shifts[copy]
            if not warm:
                self._shifts[copy] = shift
        results, strides = self.isolation.batch(labels, self._spin, draws)
        if not warm:
            self._flushes += ((key, sum_) for key, (_, sum_, _) in zip(keys, results, strict=True))
        if kept is not None:
            others = self.kept[labels[kept]]
            if len(others) == KEPT:
                others.pop(chance.randrange(KEPT))
            others.append((rolled, self._read(strides[kept])))
        return results

    def _drawn(self, labels: Sequence[str]) -> int | None:
        """The call of a batch whose outputs are compared: one of the label that was drawn least often, each of its
        draws with the same chance to be among the KEPT."""
        ours = [number for number, label in enumerate(labels) if label in self._seen]
        number = min(ours, key=lambda one: (self._seen[labels[one]], chance.random()), default=None)
        if number is None:
            return None
        self._seen[labels[number]] += 1
        return number if chance.randrange(self._seen[labels[number]]) < KEPT else None

    def _read(self, strides: Mapping[str, Sequence[int] | None]) -> dict[str, torch.Tensor]:
        """The outputs in shared memory. Raises RuntimeError for strides that reach beyond their places."""
        found = {}
        for number, (name, spec) in enumerate(self._specs.items()):
            if (steps := strides[name]) is not None:
                room = self.isolation.shared.bytes(self._begin + number * self._room, self._room).clone()
                out = room.view(arenas.DTYPES[spec.dtype]).as_strided(spec.shape, [int(step) for step in steps])
                if not (spec.optional and arenas.is_poison(out)):
                    found[name] = out
        return found

    def cupti(self, loads: Sequence[Sequence[str]], rounds: int) -> tuple[list[dict[str, Any]], set[int]]:
        """What cupti.record returns, of the prepared calls."""
        shifts = [chance.getrandbits(32) for _ in range(rounds)]
        trace, fresh = self.isolation.worker.call("cupti", loads, rounds, shifts)
        return trace, set(fresh)

    def failures(self, milliseconds: Mapping[str, float]) -> dict[str, Failure]:
        """Label -> what is wrong with it, of all that was timed. The user's kernels, which have their medians here,
        answer for the process: for the flush, and for the clock."""
        flushed = are_flushed(self._words, self._flushes, self.device)
        found: dict[str, Failure] = {}
        for label in self._cases:
            if label in milliseconds and not flushed:
                found[label] = "implausible", "flush", FLUSHED
            elif wrong := self._wrong(label):
                found[label] = wrong
            elif label in milliseconds and (late := self._late(label, milliseconds[label])):
                found[label] = late
        return found

    def _wrong(self, label: str) -> Failure | None:
        for place, (shift, kept) in enumerate(self.kept[label]):
            outputs = {name: out.to(self.device) for name, out in kept.items()}
            verdict = self._compare(label, shift, outputs)
            if not verdict.passed:
                if any(_equal(kept, other) for at, (_, other) in enumerate(self.kept[label]) if at != place):
                    return "wrong", "kept_results", f"timed output: bit by bit that of other inputs; {verdict.reason}"
                return "wrong", str(verdict.check), f"timed output: {verdict.reason}"
        return None

    def _compare(self, label: str, shift: int, outputs: Mapping[str, torch.Tensor]) -> Verdict:
        """The verdict on what a call made of the inputs, rolled as loop.cpp rolls them."""
        operator = operators.of(self.problem)
        tensors = {}
        for number, (name, spec) in enumerate(operator.input_specs(self.problem).items()):
            dense, units = self._dense[name], self._dense[name].numel() // 16
            rolled = dense.roll(shift * (2 * number + 1) % 2**64 % units * 16 if units else 0)
            tensors[name] = rolled.view(arenas.DTYPES[spec.dtype]).as_strided(spec.shape, spec.strides).contiguous()
        sample = Sample(self._sample.distribution, self._sample.seed, tensors, self._sample.scalars)
        required = [name for name, spec in self._specs.items() if not spec.optional and name not in outputs]
        if required:
            return Verdict(False, "unwritten", f"{', '.join(required)} was not returned", {})
        expected = operator.exact(self.problem, sample)
        return operator.compare(outputs, expected, peer=self._cases[label].is_peer)

    def _late(self, label: str, milliseconds: float) -> Failure | None:
        """What the verifier's own clock says against the reported times: over N and over 2 N calls, so that what
        happens once a batch is in neither."""
        calls = max(2, min(LONGEST_BATCH, int(CLOCK_SECONDS * 1e3 / max(milliseconds, 1e-3))))
        for _ in range(CLOCK_TRIES):
            walls, told = [], []
            for number in (calls, 2 * calls):
                begin = time.monotonic()
                results = self._batch([label] * number, warm=True)
                walls.append(time.monotonic() - begin)
                told.append(sum(result[0] for result in results) / 1e3)
            wall, reported = walls[1] - walls[0], told[1] - told[0]
            if wall <= CLOCK_FACTOR * reported + CLOCK_GAP * calls + CLOCK_SLACK:
                return None
        took = f"{wall * 1e3 / calls:.4f} ms each by the verifier's clock, {reported * 1e3 / calls:.4f} ms as reported"
        return "implausible", "wall_clock", f"{calls} calls more take {took}"


def are_flushed(count: int, flushes: Sequence[tuple[int, int]], device: str) -> bool:
    """Whether flushes of so many words, one after another, have the checksums of their keys: (key, checksum)."""
    words = torch.arange(count, dtype=torch.int32, device=device)
    for key, reported in flushes:
        words.bitwise_xor_(key).mul_(FACTOR)
        words.bitwise_xor_((words >> 15) & 0x1FFFF)
        if int(words.sum(dtype=torch.int64)) & 0xFFFFFFFF != reported:
            return False
    return True


def _equal(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        arenas.same_bits(one.contiguous(), second[name].contiguous()) for name, one in first.items()
    )
