"""Gluon: a TMA load takes an L2 eviction policy. It is an argument from 3.9 on."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma

FORMS = ("policy", "plain")
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def load(x_desc, y_ptr, ROWS: gl.constexpr, POLICY: gl.constexpr):
    smem = gl.allocate_shared_memory(gl.float16, [64, 64], x_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, 64 * 64 * 2)
    if POLICY is None:
        load_async(x_desc, [0, 0], full, smem)
    else:
        load_async(x_desc, [0, 0], full, smem, cache_policy=POLICY)
    mbarrier.wait(full, 0, deps=[smem])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + row[:, None] * 64 + column[None, :], smem.load(ROWS))


def build(form):
    box = f"tensordesc<fp16[64,64],{gl.NVMMASharedLayout(128, 16, 2)!r}>"
    policy = hopper.CachePolicy(l2=hopper.FractionalEvictionPolicy("evict_last", 1.0)) if form == "policy" else None
    constants = {"ROWS": gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]), "POLICY": policy}
    source = GluonASTSource(load, {"x_desc": box, "y_ptr": "*fp16", **dict.fromkeys(constants, "constexpr")}, constants)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"createpolicy\S*|cp\.async\.bulk\.tensor\S*", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
