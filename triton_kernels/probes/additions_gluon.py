"""Gluon: additions to a tile of global memory by a warp that does nothing else, 16 bytes at a time, or in an order."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

FORMS = ("bulk", "written", "atomic", "pairs", "four", "ordered")
barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # renamed in 3.7


@gluon.jit
def multiply(x_ptr, x_smem, full, empty, tiles):
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, rows)), gl.arange(0, 64, gl.SliceLayout(0, rows))
    for tile in range(tiles):
        x = gl.load(x_ptr + tile * 4096 + row[:, None] * 64 + column[None, :])
        mbarrier.wait(empty, (tile & 1) ^ 1)
        x_smem.store(x * x)
        fence_async_shared()
        mbarrier.arrive(full, count=1)


@gluon.jit
def add_in_bulk(sums_desc, x_smem, full, empty, tiles, WRITTEN: gl.constexpr):
    for tile in range(tiles):
        mbarrier.wait(full, tile & 1)
        tma.async_atomic_add(sums_desc, [tile * 64, 0], x_smem)
        if WRITTEN:  # until the sums are in global memory, not only until x was read
            tma.store_wait(0, read_only=False)
        else:
            tma.store_wait(0)
        mbarrier.arrive(empty, count=1)


@gluon.jit
def add(sums_ptr, x_smem, full, empty, tiles):
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [1, 1], [1, 0])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, rows)), gl.arange(0, 64, gl.SliceLayout(0, rows))
    for tile in range(tiles):
        mbarrier.wait(full, tile & 1)
        x = x_smem.load(rows)
        mbarrier.arrive(empty, count=1)
        gl.atomic_add(sums_ptr + tile * 4096 + row[:, None] * 64 + column[None, :], x, sem="relaxed")


@gluon.jit
def buffers(layout: gl.constexpr):
    """x in shared memory, and two mbarriers: it is full, it is empty."""
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    return gl.allocate_shared_memory(gl.float32, [64, 64], layout), full, empty


@gluon.jit
def atomic(x_ptr, sums_ptr, tiles, layout: gl.constexpr):
    x_smem, full, empty = buffers(layout)
    gl.warp_specialize(
        [(multiply, (x_ptr, x_smem, full, empty, tiles)), (add, (sums_ptr, x_smem, full, empty, tiles))], [1], [24]
    )


@gluon.jit
def bulk(x_ptr, sums_desc, tiles, layout: gl.constexpr, WRITTEN: gl.constexpr):
    x_smem, full, empty = buffers(layout)
    gl.warp_specialize(
        [
            (multiply, (x_ptr, x_smem, full, empty, tiles)),
            (add_in_bulk, (sums_desc, x_smem, full, empty, tiles, WRITTEN)),
        ],
        [1],
        [24],
    )


@gluon.jit
def no_roles(x_ptr, sums_ptr, turn_ptr, tiles, WIDTH: gl.constexpr, ORDERED: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, WIDTH], [2, 16], [4, 1], [1, 0])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, rows)), gl.arange(0, 64, gl.SliceLayout(0, rows))
    at = row[:, None] * 64 + column[None, :]
    block = gl.program_id(0)
    for tile in range(tiles):
        x = gl.load(x_ptr + (block * tiles + tile) * 4096 + at)
        if ORDERED:
            while gl.atomic_add(turn_ptr + tile, 0, sem="acquire") != block:
                pass
        gl.atomic_add(sums_ptr + tile * 4096 + at, x, sem="relaxed")
        if ORDERED:
            barrier()
            gl.atomic_xchg(turn_ptr + tile, block + 1, sem="release")


def build(form):
    layout = gl.NVMMASharedLayout(128, 32, 2)
    if form == "atomic":
        kernel, given, constants = atomic, {"x_ptr": "*fp32", "sums_ptr": "*fp32"}, {"layout": layout}
    elif form in ("bulk", "written"):
        kernel, given = bulk, {"x_ptr": "*fp32", "sums_desc": f"tensordesc<fp32[64,64],{layout!r}>"}
        constants = {"layout": layout, "WRITTEN": form == "written"}
    else:
        kernel, given = no_roles, {"x_ptr": "*fp32", "sums_ptr": "*fp32", "turn_ptr": "*i32"}
        constants = {"WIDTH": 2 if form == "pairs" else 4, "ORDERED": form == "ordered"}
    signature = {**given, "tiles": "i32", **dict.fromkeys(constants, "constexpr")}
    attrs = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(given.values()) if kind[0] == "*"}
    source = GluonASTSource(kernel, signature, constants, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            kernel = build(form)
        except Exception as error:
            print(form, error, flush=True)
            continue
        order = r"\b(?:atom|red)\.\S+|cp\.reduce\S+|ld\.\S*acquire\S*|(?:wait_group|setmaxnreg)\S*\s+\d+"
        print(form, *re.findall(order, kernel.asm["ptx"]), flush=True)
        print(*re.findall(r"partition\d?\(.*num_warps\(\d\)", kernel.asm["ttgir"]), flush=True)
