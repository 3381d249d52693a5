"""Gluon: the allocation of a tensor sets its number of buffers. Here K has two; V has one or two."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

FORMS = ("one of V", "two of V")
load_async = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared  # renamed in 3.8
barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # renamed in 3.7


@gluon.jit
def attend(k_ptr, v_ptr, o_ptr, steps, OF_V: gl.constexpr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    copy: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    left: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    at = gl.arange(0, 64, gl.SliceLayout(1, copy))[:, None] * 64 + gl.arange(0, 64, gl.SliceLayout(0, copy))[None, :]
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    k_smem = gl.allocate_shared_memory(gl.float16, [2, 64, 64], shared)
    v_smem = gl.allocate_shared_memory(gl.float16, [OF_V, 64, 64], shared)
    o = gl.zeros([64, 64], gl.float32, mma)
    for step in range(steps):
        load_async(v_smem.index(step % OF_V), v_ptr + step * 4096 + at)
        load_async(k_smem.index((step + 1) % 2), k_ptr + (step + 1) * 4096 + at)
        async_copy.commit_group()
        async_copy.wait_group(0)
        barrier()
        o = mma_v2(k_smem.index(step % 2).load(left), v_smem.index(step % OF_V).load(right), o)
        barrier()
    gl.store(o_ptr + at, gl.convert_layout(o, copy))


def build(form):
    pointers = {"k_ptr": "*fp16", "v_ptr": "*fp16", "o_ptr": "*fp32"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    signature = {**pointers, "steps": "i32", "OF_V": "constexpr"}
    source = GluonASTSource(attend, signature, {"OF_V": 1 if form == "one of V" else 2}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(
            form, "shared", kernel.metadata.shared, *dict.fromkeys(re.findall(r"memdesc<\dx64x64", kernel.asm["ttgir"]))
        )
