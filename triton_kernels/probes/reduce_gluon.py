"""Gluon: a TMA store that adds to global memory. It is a call from 3.8 on; inline PTX has it for memory of its own."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import tma

FORMS = ("reduce", "store", "asm")
store_async = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global  # renamed in 3.8
ADD = gl.constexpr(
    """{
    .shared .align 128 .b8 row[512];
    .reg .pred first;
    .reg .b32 thread, from, at;
    mov.u32 thread, %tid.x;
    mov.u32 from, row;
    setp.eq.u32 first, thread, 0;
    shl.b32 at, thread, 2;
    add.u32 at, at, from;
    st.shared.b32 [at], $1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @first cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [$2], [from], 512;
    @first cp.async.bulk.commit_group;
    @first cp.async.bulk.wait_group 0;
    mov.u32 $0, $1;
    }"""
)


@gluon.jit
def tile_of(x_ptr, y_desc, ROWS: gl.constexpr):
    row, column = gl.arange(0, 64, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    x = gl.load(x_ptr + row[:, None] * 64 + column[None, :])
    return gl.allocate_shared_memory(gl.float16, [64, 64], y_desc.layout, x)


@gluon.jit
def reduce(x_ptr, y_desc, ROWS: gl.constexpr):
    tma.async_atomic_add(y_desc, [0, 0], tile_of(x_ptr, y_desc, ROWS))


@gluon.jit
def store(x_ptr, y_desc, ROWS: gl.constexpr):
    store_async(y_desc, [0, 0], tile_of(x_ptr, y_desc, ROWS))


@gluon.jit
def by_asm(x_ptr, y_ptr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    index = gl.arange(0, 128, layout)
    at = gl.zeros([128], gl.int64, layout) + y_ptr.to(gl.int64)
    x = gl.inline_asm_elementwise(ADD, "=r,r,l", [gl.load(x_ptr + index), at], dtype=gl.int32, is_pure=False, pack=1)
    gl.store(x_ptr + index, x)


def build(form):
    if form == "asm":
        source = GluonASTSource(by_asm, {"x_ptr": "*i32", "y_ptr": "*i32"})
    else:
        box = f"tensordesc<fp16[64,64],{gl.NVMMASharedLayout(128, 16, 2)!r}>"
        signature = {"x_ptr": "*fp16", "y_desc": box, "ROWS": "constexpr"}
        rows = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
        source = GluonASTSource(reduce if form == "reduce" else store, signature, {"ROWS": rows})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            found = re.findall(r"cp\.(?:reduce\.)?async\.bulk\.(?:tensor|global)\S*", build(form).asm["ptx"])
            print(form, *found, flush=True)
        except Exception as error:
            print(form, error, flush=True)
