"""Gluon: roles on sm_100. A producer uses TMA, and another warp issues tcgen05.mma on what it brings."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia import blackwell
from triton.experimental.gluon.language.nvidia.blackwell import mbarrier, tma

FORMS = ("roles", "no roles")
load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def produce(k_desc, k_smem, full, done, s):
    mbarrier.expect(full, 128 * 64 * 2)
    load_async(k_desc, [0, 0], full, k_smem)


@gluon.jit
def multiply(k_desc, k_smem, full, done, s):
    mbarrier.wait(full, 0)
    blackwell.tcgen05_mma(k_smem, k_smem.permute((1, 0)), s, use_acc=False, mbarriers=[done])


@gluon.jit
def consume(k_desc, k_smem, full, done, s):
    mbarrier.wait(done, 0)


@gluon.jit
def attend(k_desc, s_ptr, ACC: gl.constexpr, ROLES: gl.constexpr):
    k_smem = gl.allocate_shared_memory(gl.float16, [128, 64], k_desc.layout)
    s = blackwell.allocate_tensor_memory(gl.float32, [128, 128], ACC)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    given = (k_desc, k_smem, full, done, s)
    if ROLES:
        gl.warp_specialize([(consume, given), (produce, given), (multiply, given)], [1, 1], [24, 24])
    else:
        produce(k_desc, k_smem, full, done, s)
        multiply(k_desc, k_smem, full, done, s)
        consume(k_desc, k_smem, full, done, s)


def build(form):
    box = f"tensordesc<fp16[128,64],{gl.NVMMASharedLayout(128, 16, 2)!r}>"
    signature = {"k_desc": box, "s_ptr": "*fp32", "ACC": "constexpr", "ROLES": "constexpr"}
    constants = {"ACC": blackwell.TensorMemoryLayout((128, 128), col_stride=1), "ROLES": form == "roles"}
    source = GluonASTSource(attend, signature, constants)
    return triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, "warps", kernel.metadata.num_warps, *sorted(set(re.findall(r"tcgen05\.mma\S*", kernel.asm["ptx"]))))
