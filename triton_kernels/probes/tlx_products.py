"""TLX: what can run while products are in flight, what can depend on values, and what a for loop does to waits."""

import re

import triton
import triton.language as tl
import utlx_plugin as tlx
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("free", "early", "pinned", "held", "second set", "for")


@triton.jit
def step(q, v, empty, o, rescale, row_max, p, FORM: tl.constexpr):
    s = tlx.async_dot(q[0], tlx.local_trans(q[0]))
    if FORM == "early":  # while Q K^T is in flight, before P V is issued
        o = o * rescale[:, None]
    o = tlx.async_dot(p, v[0], o)
    s = tlx.async_dot_wait(1, s)
    new_max = tl.maximum(row_max, tl.max(s, 1))
    top = tl.max(new_max, 0)
    if FORM == "pinned":
        if top == top:  # always true, but only known after the maxima
            tlx.barrier_arrive(empty[0], 1)
    else:
        tlx.barrier_arrive(empty[0], 1)
    scores = tl.exp2(s - new_max[:, None])
    if FORM == "held":  # never true, but only known after the sums
        tlx.barrier_wait(empty[0], (tl.min(tl.sum(scores, 1), 0) < 0).to(tl.int32))
    if FORM == "second set":  # the next P needs registers beside the one that is being multiplied
        p = scores.to(tl.float16)
        o = tlx.async_dot_wait(0, o)
    else:
        o = tlx.async_dot_wait(0, o)
        p = scores.to(tl.float16)
    rescale = tl.exp2(row_max - new_max)
    if FORM != "early":
        o = o * rescale[:, None]
    return o, rescale, new_max, p


@triton.jit
def attend(o_ptr, steps, FORM: tl.constexpr):
    q, v = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    empty = tlx.alloc_barriers(num_barriers=1, arrive_count=1)
    o, row_max = tl.zeros((64, 64), tl.float32), tl.full((64,), -1e30, tl.float32)
    rescale, p = tl.zeros((64,), tl.float32), tl.zeros((64, 64), tl.float16)
    if FORM == "for":
        for _ in tl.range(0, steps, num_stages=1):
            o, rescale, row_max, p = step(q, v, empty, o, rescale, row_max, p, FORM)
    else:
        i = 0
        while i < steps:
            o, rescale, row_max, p = step(q, v, empty, o, rescale, row_max, p, FORM)
            i += 1
    tl.store(o_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], o)


def build(form):
    source = ASTSource(attend, {"o_ptr": "*fp32", "steps": "i32", "FORM": "constexpr"}, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        order = r"commit_group|wait_group\S+\s+\d|\b(?:ex2|cvt|mul)(?=\.\S*f32)|setp\.\w+\.f32|mbarrier\.\w+"
        print(form, *re.findall(order, build(form).asm["ptx"]))
