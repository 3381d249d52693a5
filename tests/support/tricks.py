"""Kernels that would rather pass than be right, or be fast: each is a trick that somebody has tried."""

import contextlib
import ctypes
import gc
import os
import struct
import sys
import threading
import time

import torch

from tests.support.own_kernels import attend

LOOP = "/loop-"
"""Part of the path of the timing loop's library."""


def nothing(q):
    return torch.zeros_like(q)


def searches_memory(q, k, v, *, causal, scale):
    """Takes the tensor that is most like the exact result: of o's shape, in more than 16 bits."""
    for one in gc.get_objects():
        if isinstance(one, torch.Tensor) and one.shape == q.shape and one.dtype in (torch.float32, torch.float64):
            return one.to(q.dtype)
    return nothing(q)


def searches_frames(q, k, v, *, causal, scale):
    frame = sys._getframe()
    while frame := frame.f_back:
        for one in frame.f_locals.values():
            if hasattr(one, "lse_tolerance"):
                return one.o.to(q.dtype), one.lse.float()
    return nothing(q)


def searches_freed_memory(q, k, v, *, causal, scale):
    """Takes what an earlier tensor of the exact result's size may have left."""
    for dtype in (torch.float64, torch.float32):
        left = torch.empty(q.shape, dtype=dtype, device=q.device).nan_to_num(0, 0, 0).clamp(-1, 1)
        if left.any():
            return left.to(q.dtype)
    return nothing(q)


def overwrites_the_expected(q, k, v, *, causal, scale):
    for one in gc.get_objects():
        if isinstance(one, torch.Tensor) and one.dtype in (torch.float32, torch.float64):
            one.data.zero_()
    return nothing(q)


def replaces_the_comparison(q, k, v, *, causal, scale):
    import harness.measure.gate
    import harness.operators.attention.numerics as numerics
    from harness.operators.protocol import Verdict

    numerics.compare = numerics.judge = lambda *_, **__: Verdict(True, None, None, {"max_abs": 0.0})
    harness.measure.gate.gate = lambda *_, **__: Verdict(True, None, None, {"normal": {"max_abs": 0.0}})
    return nothing(q)


def answers_for_the_worker(q, k, v, *, causal, scale):
    """Writes what says that a kernel passed, and lets nobody write anything else."""
    from multiprocessing.connection import Connection

    for one in gc.get_objects():
        if isinstance(one, Connection):
            one.send_bytes(b'["done", null, {"status": "passed", "reason": null, "check": null, "numerics": {}}]')
            one.close()
    return nothing(q)


def answers_with_the_token(q, k, v, *, causal, scale):
    """The same with the token of the call, which a frame holds."""
    from multiprocessing.connection import Connection

    frame = sys._getframe()
    while "token" not in frame.f_locals:
        frame = frame.f_back
    for one in gc.get_objects():
        if isinstance(one, Connection):
            one.send_bytes(f'["done", "{frame.f_locals["token"]}", 1.0]'.encode())
    return nothing(q)


def writes_later(q, k, v, *, causal, scale, out):
    """Returns, and has a thread write meanwhile."""
    threading.Timer(0.3, lambda: out.copy_(attend(q, k, v, causal=causal, scale=scale)[0])).start()


def answers_for_the_compilers(q, k, v, *, causal, scale):
    """With a whole verdict in place of what a compiler said."""
    from harness.measure.process import Process

    Process.of_compilers = lambda *_: {"status": "passed", "reason": None, "check": None, "numerics": {}}
    return nothing(q)


def says_what_no_row_can_hold(q, k, v, *, causal, scale):
    """Right, and has a command refuse the rows of a whole run."""
    from harness.measure.process import Process

    Process.of_compilers = lambda *_: {"compiler": [1], "compile_s": "soon"}
    return attend(q, k, v, causal=causal, scale=scale)


def fails_without_words(q, k, v, *, causal, scale):
    from multiprocessing.connection import Connection

    for one in gc.get_objects():
        if isinstance(one, Connection):
            one.send_bytes(b'["failed", ["unsupported", {"not": "words"}, {}]]')
    return nothing(q)


def leaves_quietly(q, k, v, *, causal, scale):
    raise SystemExit(0)


def takes_the_memory_away(q, k, v, *, causal, scale):
    """So that the verifier dies where it reads."""
    for descriptor in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{descriptor}"
        if os.path.islink(path) and "memfd:twinkernels" in os.readlink(path):
            with contextlib.suppress(PermissionError):
                os.ftruncate(int(descriptor), 16)
    return nothing(q)


def of_the_loop():
    """Where the timing loop's library lies in this process; nowhere if it does not time."""
    with open("/proc/self/maps") as maps:
        spans = [line.split()[0].split("-") for line in maps if LOOP in line]
    return [(int(begin, 16), int(end, 16)) for begin, end in spans]


FIRST = bool(of_the_loop())
"""Whether the loop was there before this file was imported."""


def patches(name, function):
    """Has the loop call a function of ours instead of the driver's, wherever it holds that one's address."""
    if not of_the_loop():
        return
    theirs = getattr(ctypes.CDLL("libcuda.so.1"), name)
    old, new = (ctypes.cast(one, ctypes.c_void_p).value.to_bytes(8, sys.byteorder) for one in (theirs, function))
    for begin, end in of_the_loop():
        at = ctypes.string_at(begin, end - begin).find(old)
        if at >= 0:
            ctypes.CDLL(None).mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), 3)
            ctypes.memmove(begin + at, new, 8)


NEVER_FLUSHES = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
ELAPSED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p)
WATCHED, INTERVALS = [], []


def never_flushes(q, k, v, *, causal, scale):
    patches("cuLaunchKernel", NEVER_FLUSHES)
    return attend(q, k, v, causal=causal, scale=scale)


def watched():
    """How many calls the verifier's clock watches: its batches alone have more than two, all of one kernel."""
    frame = sys._getframe()
    while frame and "labels" not in frame.f_locals:
        frame = frame.f_back
    labels = frame.f_locals["labels"] if frame else ()
    return len(labels) if len(labels) > 2 and len(set(labels)) == 1 else 0


def takes(seconds, q):
    """The time that a trick conceals; on a GPU it is the GPU's."""
    torch.cuda._sleep(int(1.5e9 * seconds)) if q.is_cuda else time.sleep(seconds)


def never_flushes_for_the_clock(q, k, v, *, causal, scale):
    return (
        never_flushes(q, k, v, causal=causal, scale=scale) if watched() else attend(q, k, v, causal=causal, scale=scale)
    )


@ELAPSED
def a_microsecond(milliseconds, begin, end):
    milliseconds[0] = 1e-3
    return 0


def stops_the_clock(q, k, v, *, causal, scale):
    patches("cuEventElapsedTime", a_microsecond)
    takes(0.003, q)
    return attend(q, k, v, causal=causal, scale=scale)


def waits_in_shorter_batches(q, k, v, *, causal, scale):
    """Waits longer the fewer calls a batch has, so that the difference between two batches says nothing."""
    patches("cuEventElapsedTime", a_microsecond)
    takes(0.003 * max(1, 64 / (watched() or 64)) ** 1.5, q)
    return attend(q, k, v, causal=causal, scale=scale)


def computes_nothing_for_the_clock(q, k, v, *, causal, scale):
    patches("cuEventElapsedTime", a_microsecond)
    if watched():
        return nothing(q)
    takes(0.003, q)
    return attend(q, k, v, causal=causal, scale=scale)


def elapsed(milliseconds, begin, end):
    """The driver's own."""
    return ctypes.CDLL("libcuda.so.1").cuEventElapsedTime(milliseconds, ctypes.c_void_p(begin), ctypes.c_void_p(end))


@ELAPSED
def a_microsecond_unless_watched(milliseconds, begin, end):
    return (elapsed if WATCHED else a_microsecond)(milliseconds, begin, end)


def is_honest_to_the_clock(q, k, v, *, causal, scale):
    patches("cuEventElapsedTime", a_microsecond_unless_watched)
    WATCHED[:] = [True] * watched()
    takes(0.003, q)
    return attend(q, k, v, causal=causal, scale=scale)


@ELAPSED
def as_of_the_flush(milliseconds, begin, end):
    error = elapsed(milliseconds, begin, end)
    INTERVALS.append(milliseconds[0])
    milliseconds[0] = 1e-3 if len(INTERVALS) % 2 == 0 else sum(INTERVALS[-2:])
    return error


def charges_its_time_to_the_flush(q, k, v, *, causal, scale):
    """The sum of both stays right."""
    patches("cuEventElapsedTime", as_of_the_flush)
    takes(0.003, q)
    return attend(q, k, v, causal=causal, scale=scale)


def repairs_what_is_kept(q, k, v, *, causal, scale, calls=[]):  # noqa: B006
    """Returns at once, and computes outputs that it finds in shared memory when its process is about to answer."""
    from harness.measure.process import Process

    if not FIRST:
        return attend(q, k, v, causal=causal, scale=scale)
    says = Process.say

    def say(self, *words):
        shared = self._shared[: 2**20].numpy()
        for given, out in calls if words[0] == "done" else ():
            at = shared.tobytes().find(out.cpu().numpy().tobytes())
            if at >= 0:
                o, _ = attend(*given, causal=causal, scale=scale)
                shared[at : at + out.nbytes] = o.contiguous().view(torch.uint8).flatten().cpu().numpy()
        says(self, *words)

    if not calls:
        Process.say = say
    calls.append(([one.clone() for one in (q, k, v)], torch.full_like(q, len(calls)).contiguous()))
    return calls[-1][1]


def sends_times_of_its_own(q, k, v, *, causal, scale):
    """Before the loop sends those that it took."""
    if FIRST:
        os.write(int(sys.argv[7]), struct.pack("=3fQ", 1e-3, 1e-3, 1.0, 0))
    return attend(q, k, v, causal=causal, scale=scale)


def begins_two_calls_at_once(q, k, v, *, causal, scale, batches=[]):  # noqa: B006
    """Has the loop begin the next call before this one computes, so that this one's time ends before it does."""
    from harness.measure.isolated import Kernels

    if FIRST and not batches:
        kernels = next(one for one in gc.get_objects() if type(one).__name__ == Kernels.__name__)
        native, copies = kernels._native, []

        def begins(function, *arguments):
            if function == "begin":
                if not copies:
                    copies.extend((native("begin", *arguments), native("begin", *arguments)))
                return copies.pop(0)
            return native(function, *arguments)

        kernels._native = begins
        batches.append(kernels)
    return attend(q, k, v, causal=causal, scale=scale)


def finishes_after_the_clock(q, k, v, *, causal, scale):
    """Where nobody waits for its thread."""
    o, lse = attend(q, k, v, causal=causal, scale=scale)
    if not FIRST:
        return o, lse
    late = torch.rand_like(o)
    threading.Timer(0.01, lambda: late.copy_(o)).start()
    return late


def declines_when_it_is_timed(q, k, v, *, causal, scale, calls=[]):  # noqa: B006
    calls.append(FIRST)
    if calls.count(True) > 3:
        raise NotImplementedError
    return attend(q, k, v, causal=causal, scale=scale)


def works_between_calls(q, k, v, *, causal, scale, known={}):  # noqa: B006
    """Knows all copies of the inputs, and computes their answers anew when its process says that a call comes: before
    the clock starts."""
    from harness.measure.process import Process

    def answer(given):
        known[given[0].data_ptr()] = given, attend(*given, causal=causal, scale=scale)

    if FIRST and not known:
        says = Process.now

        def now(self, stage, label):
            says(self, stage, label)
            for given, _ in [*known.values()]:
                answer(given)

        Process.now = now
    if q.data_ptr() not in known:
        answer((q, k, v))
    return known[q.data_ptr()][1] if FIRST else attend(q, k, v, causal=causal, scale=scale)


def right_when_it_is_checked(q, k, v, *, causal, scale):
    o, lse = attend(q, k, v, causal=causal, scale=scale)
    return (o / 2 if of_the_loop() else o), lse


def hands_nothing_back(q, k, v, *, causal, scale):
    """Where its output is not copied: later calls return none."""
    from harness.build.own import OwnFunction

    for one in gc.get_objects() if FIRST else ():
        if type(one) is OwnFunction:
            one.call = lambda tensors, scalars: {}
    return attend(q, k, v, causal=causal, scale=scale)


def replays(q, k, v, *, causal, scale, answers={}):  # noqa: B006
    """Knows inputs again by what does not change from one call to the next: their sizes, once it has been checked."""
    if not of_the_loop():
        return attend(q, k, v, causal=causal, scale=scale)
    if q.shape not in answers:
        answers[q.shape] = attend(q, k, v, causal=causal, scale=scale)
    return answers[q.shape]


def forks_and_dies(q, k, v, *, causal, scale):
    """The child holds the connection."""
    if os.fork() == 0:
        time.sleep(60)
    os._exit(7)


class Wordless(Exception):
    def __str__(self):
        raise RuntimeError


def raises_without_words(q, k, v, *, causal, scale):
    raise Wordless


def raises_half_a_character(q, k, v, *, causal, scale):
    raise ValueError("half \ud800 of it")


# What an honest kernel may do.

BUFFERS = {}
WEIGHT = torch.nn.Parameter(torch.ones(()))


def in_one_buffer(q, k, v, *, causal, scale):
    """The same memory each call."""
    o, _ = attend(q, k, v, causal=causal, scale=scale)
    return BUFFERS.setdefault((q.shape, q.dtype), torch.empty_like(o)).copy_(o)


def cached_by_shape(q, k, v, *, causal, scale, masks={}):  # noqa: B006
    key = q.shape, k.shape, causal
    if key not in masks:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
        masks[key] = seen.tril(k.shape[2] - q.shape[2]) if causal else seen
    group = q.shape[1] // k.shape[1]
    keys, values = (one.float().repeat_interleave(group, 1) for one in (k, v))
    scores = (scale * q.float() @ keys.transpose(-1, -2)).masked_fill(~masks[key], -torch.inf)
    return (scores.softmax(-1).nan_to_num(0.0) @ values).to(q.dtype)


def tunes_itself(q, k, v, *, causal, scale, tried=[]):  # noqa: B006
    while len(tried) < 3:
        tried.append(attend(q, k, v, causal=causal, scale=scale))
    return attend(q, k, v, causal=causal, scale=scale)


def with_weights(q, k, v, *, causal, scale):
    o, lse = attend(q, k, v, causal=causal, scale=scale)
    return o * WEIGHT.to(o.dtype), lse


def with_weights_into(q, k, v, *, causal, scale, out):
    out.copy_(attend(q, k, v, causal=causal, scale=scale)[0] * WEIGHT.to(q.dtype))


def with_other_strides(q, k, v, *, causal, scale):
    o, lse = attend(q, k, v, causal=causal, scale=scale)
    return o.transpose(1, 2).contiguous().transpose(1, 2), lse


def with_another_default(q, k, v, *, causal, scale):
    torch.set_default_dtype(torch.float64)
    return attend(q, k, v, causal=causal, scale=scale)


def imported_after_the_loop(q, k, v, *, causal, scale):
    assert bool(of_the_loop()) == FIRST
    return attend(q, k, v, causal=causal, scale=scale)


def in_a_graph(q, k, v, *, causal, scale, graphs={}):  # noqa: B006
    """Its own CUDA graph, of copies of its inputs."""
    key = q.shape, k.shape, q.dtype, causal, scale
    if key not in graphs:
        given = [one.clone() for one in (q, k, v)]
        torch.cuda.synchronize()
        aside = torch.cuda.Stream()
        with torch.cuda.stream(aside):
            attend(*given, causal=causal, scale=scale)
        aside.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = attend(*given, causal=causal, scale=scale)
        graphs[key] = given, graph, answer
    given, graph, answer = graphs[key]
    for to, one in zip(given, (q, k, v), strict=True):
        to.copy_(one)
    graph.replay()
    return answer
