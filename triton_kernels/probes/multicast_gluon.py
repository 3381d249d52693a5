"""Gluon: a TMA load into both blocks of a cluster. It is an argument from 3.7.1 on."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

FORMS = ("multicast", "each")
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8

if hasattr(mbarrier, "allocate_mbarrier"):
    allocate = mbarrier.allocate_mbarrier
else:

    @gluon.jit
    def allocate():
        return gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())


@gluon.jit
def load(x_desc, y_ptr, ROWS: gl.constexpr, MULTICAST: gl.constexpr):
    smem = gl.allocate_shared_memory(gl.float16, [64, 64], x_desc.layout)
    full = allocate()
    mbarrier.init(full, count=1)
    mbarrier.expect(full, 64 * 64 * 2)
    if MULTICAST:
        load_async(x_desc, [0, 0], full, smem, multicast=True)
    else:
        load_async(x_desc, [0, 0], full, smem)
    mbarrier.wait(full, 0, deps=[smem])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + row[:, None] * 64 + column[None, :], smem.load(ROWS))


def build(form):
    both = [[0, 0]]  # both blocks hold the same tile
    box = gl.NVMMASharedLayout(128, 16, 2, cga_layout=both)
    rows = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=both)
    signature = {"x_desc": f"tensordesc<fp16[64,64],{box!r}>", "y_ptr": "*fp16", "ROWS": "constexpr"}
    constants = {"ROWS": rows, "MULTICAST": form == "multicast"}
    source = GluonASTSource(load, {**signature, "MULTICAST": "constexpr"}, constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_ctas": 2})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"cp\.async\.bulk\.tensor\S+", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
