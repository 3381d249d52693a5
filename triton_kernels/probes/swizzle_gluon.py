"""Gluon: a tile's layout in shared memory is an argument. It decides which instructions read the tile."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

load_async = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared  # renamed in 3.8
barrier = getattr(gl, "barrier", None) or gl.thread_barrier  # renamed in 3.7
COLUMNS = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]]
LAYOUTS = {
    "plain": gl.SwizzledSharedLayout(8, 1, 1, [1, 0]),
    "swizzled": gl.SwizzledSharedLayout(8, 1, 8, [1, 0]),
    "padded": gl.PaddedSharedLayout.with_identity_for([[64, 8]], [64, 64], [1, 0]),
    "xor": gl.SharedLinearLayout([*COLUMNS, [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]]),
}
FORMS = (*LAYOUTS, *(f"{name} cp_async" for name in ("plain", "swizzled", "padded")))


@gluon.jit
def product(a_ptr, b_ptr, c_ptr, LAYOUT: gl.constexpr, ASYNC: gl.constexpr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    at = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None] * 64 + gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    a_smem = gl.allocate_shared_memory(gl.float16, [64, 64], LAYOUT)
    b_smem = gl.allocate_shared_memory(gl.float16, [64, 64], LAYOUT)
    if ASYNC:
        load_async(a_smem, a_ptr + at)
        load_async(b_smem, b_ptr + at)
        async_copy.commit_group()
        async_copy.wait_group(0)
    else:
        a_smem.store(gl.load(a_ptr + at))
        b_smem.store(gl.load(b_ptr + at))
    barrier()
    a, b = a_smem.load(gl.DotOperandLayout(0, mma, 2)), b_smem.load(gl.DotOperandLayout(1, mma, 2))
    c = mma_v2(a, b, gl.zeros([64, 64], gl.float32, mma))
    gl.store(c_ptr + at, gl.convert_layout(c, rows))


def build(form):
    name, _, way = form.partition(" ")
    constants = {"LAYOUT": LAYOUTS[name], "ASYNC": way == "cp_async"}
    pointers = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = GluonASTSource(product, {**pointers, **dict.fromkeys(constants, "constexpr")}, constants, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            kernel = build(form)
        except Exception as error:
            print(form, error)
            continue
        layouts = re.findall(r"(?:swizzled_shared|padded_shared|shared_linear)<[^>]*", kernel.asm["ttgir"])
        print(form, *layouts, *sorted(set(re.findall(r"ldmatrix\S*\.x4\S*", kernel.asm["ptx"]))))
        print(*sorted(set(re.findall(r"\b(?:LDSM|LDGSTS|LDS|STS)[.\w]*", kernel.asm["sass"]))))
