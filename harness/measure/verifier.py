"""What judges a user's kernel: makes the inputs, knows the exact result, compares, and holds the clock that reported
times must agree with. It never imports the kernel, which runs in harness.measure.isolated: bytes of tensors and times
come back from there, never a verdict. Knows no operator.
"""

import random
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness import operators
from harness.measure import arenas, gate, timing
from harness.measure.worker import Failed, Isolation
from harness.operators.memory import DTYPES, reach
from harness.operators.protocol import Problem

LOOP = Path(__file__).with_name("loop.cpp")
"""The source of the timing loop in the kernel's process."""
MOST_COPIES = 64
"""Copies of inputs: fewer than twice the L2 cache needs where one is smaller than a 64th of that."""
KEPT = 3
"""Outputs of timed calls that are compared with the exact result, of each kernel."""
CLOCK_TRIES = 16
"""Batches by which the verifier's clock may find a kernel as fast as reported: on a busy host most may be late."""
CLOCK_FACTOR, CLOCK_GAP, CLOCK_SLACK = 1.25, 0.01, 1.0
"""The verifier's clock may show so many times the reported time, so many ms a call more, and so many ms a batch."""
Failure = tuple[str, str, str]
"""Status, check and reason of a row."""
chance = random.SystemRandom()


class Stopwatch(timing.CudaStopwatch):
    """Times calls of one problem's `cases` (label -> case) in the kernel's process, and draws which copy of the inputs
    each call gets. The second of the `isolations` loads no kernel. Ask for `failures` last."""

    def __init__(self, isolations: list[Isolation], problem: Problem, device: str, cases: Mapping[str, Any]) -> None:
        isolation, *others = isolations
        self.isolation, self.problem, self.device, self._cases = isolation, problem, device, cases
        self.exposed: set[str] = set()
        self._operator = operator = operators.of(problem)
        self._sample = operator.inputs(problem, operator.distributions[0], chance.getrandbits(31), device)
        self._specs = operator.output_specs(problem)
        self._inputs = arenas.Inputs(operator.input_specs(problem), self._sample)
        self._dense = [arena.dense for arena in self._inputs.arenas.values()]
        self._bases = [dense.clone() for dense in self._dense]
        given = torch.cat(self._dense)
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        self._words, self._flushes = 2 * cache // 4, list[tuple[int, int]]()
        self._copies = max(2, min(MOST_COPIES, -(-2 * cache // len(given))))
        self._seen = Counter[str]()
        self.kept = defaultdict[str, dict[int, tuple[int, dict[str, torch.Tensor]]]](dict)
        """Of timed calls: by how much their inputs were rolled, and their outputs."""
        # What an output may reach over: with other strides it is larger than a contiguous one.
        room = 2 * max(arenas.Arena(spec, "cpu").dense.numel() for spec in self._specs.values())
        torch.frombuffer(isolation.memory, dtype=torch.uint8)[: len(given)].copy_(given)
        isolation.call("prepare", problem, cases, self._copies + 1, self._words, room, dict(self._sample.scalars))
        self._empty = Stopwatch(others, problem, device, {}) if others else self

    def behind_spin(self, batch: Sequence[tuple[str, Any]], notify: timing.Notify) -> tuple[list[float], bool]:
        told, ahead = self._batch([label.removesuffix(" again") for label, _ in batch])
        return told[1::2], ahead

    def _batch(self, labels: Sequence[str], *, clock: bool = False) -> tuple[list[float], bool]:
        """For each call the milliseconds since the one before, and its own; whether all were queued ahead. For the
        `clock` the host has the longest spin to queue them, and one output is kept, in a place of its own."""
        kept = min(range(len(labels)), key=lambda one: (self._seen[labels[one]], chance.random()))
        seen = self._seen[labels[kept]]
        slot = -1 if clock else seen if seen < KEPT else chance.randrange(seen + 1)  # each call has the same chance
        self._seen[labels[kept]] += not clock
        keys, shifts = ([chance.getrandbits(31) for _ in labels] for _ in "ks")
        for number, (key, shift) in enumerate(zip(keys, shifts, strict=True)):
            draw = struct.pack("=IIII", key, chance.randrange(self._copies), shift, slot < KEPT and number == kept)
            self.isolation.channel.sendall(draw)
        try:
            strides, sums = self.isolation.call("batch", labels, self.LONGEST_SPIN if clock else self._spin)
            found, self.isolation.sent = self.isolation.sent, bytearray()
            head = struct.Struct(f"={2 * len(labels) + 1}fQ")
            *told, ahead, count = head.unpack_from(found.ljust(head.size, b"\0"))
            if len(found) != head.size + count:
                reason = f"the process sent {len(found)} bytes for {len(labels)} calls, expected {head.size + count}"
                raise Failed({"status": "implausible", "check": "forged_answer", "reason": reason}, None, "launch")
        except BaseException:
            self.isolation.kill()  # draws are left in the channel
            raise
        self._flushes += zip(keys, sums, strict=True)
        if slot < KEPT:
            self.kept[labels[kept]][slot] = shifts[kept], self._outputs(strides[kept], found[head.size :])
        return told, bool(ahead)

    def _outputs(self, strides: Sequence[Sequence[int] | None], received: bytearray) -> dict[str, torch.Tensor]:
        """The outputs among what was received. Raises RuntimeError, ValueError for strides that reach beyond it."""
        found, begin = {}, 0
        for steps, (name, spec) in zip(strides, self._specs.items(), strict=True):
            if steps is not None:
                values = torch.frombuffer(received, dtype=DTYPES[spec.dtype], offset=begin)
                out = values.as_strided(spec.shape, [int(step) for step in steps])
                if not (spec.optional and arenas.is_poison(out)):
                    found[name] = out
                begin += -(-reach(out) // 16) * 16
        return found

    def failures(self, milliseconds: Mapping[str, float]) -> Iterator[tuple[str, Failure]]:
        """Labels and what is wrong with them; `milliseconds` has the medians. A fault of the process, in the flush or
        the clock, is that of the user's kernels."""
        late = {label: self._late(label, milliseconds[label]) for label, case in self._cases.items() if case.kernel}
        flushed = are_flushed(self._words, self._flushes, self.device)
        for label, case in self._cases.items():
            if case.kernel and not flushed:
                yield label, ("implausible", "flush", "the flush of L2 has another checksum than its key gives")
            elif failure := self._wrong(label) or late.get(label):
                yield label, failure

    def _wrong(self, label: str) -> Failure | None:
        for shift, kept in self.kept[label].values():
            if missing := [name for name, spec in self._specs.items() if not (spec.optional or name in kept)]:
                return "wrong", "unwritten", f"timed output: {', '.join(missing)} was not returned"
            arenas.roll(self._dense, self._bases, shift)
            expected = self._operator.exact(self.problem, replace(self._sample, tensors=self._inputs.tensors))
            outputs = {name: out.to(self.device) for name, out in kept.items()}
            verdict = self._operator.compare(outputs, expected, peer=self._cases[label].is_peer)
            if not verdict.passed:
                others = [other for _, other in self.kept[label].values() if other is not kept]
                if any(gate.check_stale(kept, other, ()) for other in others):
                    return "wrong", "kept_results", f"timed output: bit by bit that of other inputs; {verdict.reason}"
                return "wrong", str(verdict.check), f"timed output: {verdict.reason}"
        return None

    def _late(self, label: str, milliseconds: float) -> Failure | None:
        """What the verifier's own clock says against the reported median. A busy host and a kernel that waits can only
        lengthen a batch: the shortest one counts, less the shortest one of empty calls."""
        calls, seconds = 2 + int(30 / (1 + milliseconds)), defaultdict[tuple[str, int], list[float]](list)
        for _ in range(CLOCK_TRIES):
            for watch, one in (*[(self._empty, "empty")] * 5, (self, label)):
                torch.zeros(1, device=self.device).item()  # the GPU changes from this process to that of any batch
                begin = time.monotonic()
                _, ahead = watch._batch([one] * calls, clock=True)
                seconds[one, calls].append(watch.isolation.arrived - begin)
            each = (min(seconds[label, calls]) - min(seconds["empty", calls])) * 1e3 / calls
            if each <= CLOCK_FACTOR * milliseconds + CLOCK_GAP + CLOCK_SLACK / calls:
                return None
            calls = calls if ahead else min(calls, max(4, calls // 2))  # fewer that the host queues within the spin
        return "implausible", "wall_clock", f"{each:.4f} ms by the verifier's clock, {milliseconds:.4f} ms as reported"


def are_flushed(count: int, flushes: Sequence[tuple[int, int]], device: str) -> bool:
    """Whether flushes of so many words, one after another, have the checksums of their keys: (key, checksum)."""
    words = torch.arange(count, dtype=torch.int32, device=device)
    for key, reported in flushes:
        words.bitwise_xor_(key).mul_(0x9E3779B1 - 2**32)  # loop.cpp's factor as a signed word
        words.bitwise_xor_((words >> 15) & 0x1FFFF)
        if (int(words.sum(dtype=torch.int64)) - reported) % 2**32:
            return False
    return True
