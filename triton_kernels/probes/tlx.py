"""TLX, Meta's extensions of core Triton: named barriers, roles with registers, waits, and reuse of shared memory."""

import re

import triton
import triton.language as tl
import utlx_plugin as tlx
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("barriers", "plain", "roles", "wait one", "wait all", "reuse", "apart")


@triton.jit
def barriers(x_ptr, y_ptr, NAMED: tl.constexpr):
    index = tl.arange(0, 256)
    x = tl.load(x_ptr + index)
    if NAMED:
        tlx.named_barrier_arrive(9, 256)
        tlx.named_barrier_wait(10, 256)
    tl.store(y_ptr + index, x)


@triton.jit
def roles(x_ptr, y_ptr):
    full = tlx.alloc_barriers(num_barriers=2, arrive_count=1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            index = tl.arange(0, 128)
            tl.store(y_ptr + index, tl.load(x_ptr + index))
        with tlx.async_task(num_warps=4, registers=232, replicate=2):
            tlx.barrier_wait(full[0], 0)
            index = tl.arange(0, 128)
            tl.store(y_ptr + index, tl.load(x_ptr + index) + 1)
        with tlx.async_task(num_warps=1, registers=24):
            tlx.barrier_arrive(full[0], 1)


@triton.jit
def products(q_desc, k_desc, s_ptr, PENDING: tl.constexpr):
    q, k = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    full = tlx.alloc_barriers(num_barriers=1, arrive_count=1)
    tlx.barrier_expect_bytes(full[0], 2 * 64 * 64 * 2)
    tlx.async_descriptor_load(q_desc, q[0], [0, 0], full[0])
    tlx.async_descriptor_load(k_desc, k[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    first, second = tlx.async_dot(q[0], tlx.local_trans(k[0])), tlx.async_dot(q[0], tlx.local_trans(k[0]))
    first = tlx.async_dot_wait(PENDING, first)
    p = tl.exp2(first)
    second = tlx.async_dot_wait(0, second)
    tl.store(s_ptr + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], p + second)


@triton.jit
def twice(x_ptr, y_ptr, REUSE: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    first = tlx.local_alloc((64, 64), tl.float16, 1)
    if REUSE:
        second = tlx.local_alloc((64, 64), tl.float16, 1, reuse=first)
    else:
        second = tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(first[0], tl.load(x_ptr + at))
    tlx.local_store(second[0], tlx.local_load(first[0]) + 1)
    tl.store(y_ptr + at, tlx.local_load(second[0]))


def build(form):
    pointers = {"x_ptr": "*fp16", "y_ptr": "*fp16"}
    box = "tensordesc<fp16[64,64]>"
    tiles = {"q_desc": box, "k_desc": box, "s_ptr": "*fp32", "PENDING": "constexpr"}
    source = {
        "barriers": lambda: ASTSource(barriers, {**pointers, "NAMED": "constexpr"}, {"NAMED": True}),
        "plain": lambda: ASTSource(barriers, {**pointers, "NAMED": "constexpr"}, {"NAMED": False}),
        "roles": lambda: ASTSource(roles, pointers),
        "wait one": lambda: ASTSource(products, tiles, {"PENDING": 1}),
        "wait all": lambda: ASTSource(products, tiles, {"PENDING": 0}),
        "reuse": lambda: ASTSource(twice, {**pointers, "REUSE": "constexpr"}, {"REUSE": True}),
        "apart": lambda: ASTSource(twice, {**pointers, "REUSE": "constexpr"}, {"REUSE": False}),
    }[form]()
    warps = 8 if form in ("barriers", "plain") else 4
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        found = re.findall(r"setmaxnreg\S+\s+\d+|wgmma\.wait_group\S+\s+\d+|mbarrier\.arrive\S*", kernel.asm["ptx"])
        found += re.findall(r"BAR\.\w+\S* 0x\w+, 0x\w+", kernel.asm["sass"])
        print(form, "shared", kernel.metadata.shared, "warps", kernel.metadata.num_warps, *found)
