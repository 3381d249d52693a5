"""Gluon: one TMA load of rows that a tensor of indices names (gather4), on sm_100."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import mbarrier, tma

FORMS = ("gather", "load")
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def rows(x_desc, index_ptr, y_ptr, ROWS: gl.constexpr, GATHER: gl.constexpr):
    smem = gl.allocate_shared_memory(gl.float16, [32, 64], x_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, 32 * 64 * 2)
    if GATHER:
        named: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
        tma.async_gather(x_desc, gl.load(index_ptr + gl.arange(0, 32, named)), 0, full, smem)
    else:
        load_async(x_desc, [0, 0], full, smem)
    mbarrier.wait(full, 0, deps=[smem])
    row, column = gl.arange(0, 32, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + row[:, None] * 64 + column[None, :], smem.load(ROWS))


def build(form):
    gather = form == "gather"
    box = f"tensordesc<fp16[{1 if gather else 32},64],{gl.NVMMASharedLayout(128, 16, 2)!r}>"
    signature = {"x_desc": box, "index_ptr": "*i32", "y_ptr": "*fp16", "ROWS": "constexpr", "GATHER": "constexpr"}
    constants = {"ROWS": gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]), "GATHER": gather}
    source = GluonASTSource(rows, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"cp\.async\.bulk\.tensor\S*", build(form).asm["ptx"]))))
