"""Gluon: a product of 8-bit floats with a scale for every 32 of them, on sm_100."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia import blackwell

FORMS = ("scaled", "plain")


@gluon.jit
def multiply(A: gl.constexpr, B: gl.constexpr, ACC: gl.constexpr, SCALED: gl.constexpr):
    a = gl.allocate_shared_memory(gl.float8e4nv, [128, 128], A)
    b = gl.allocate_shared_memory(gl.float8e4nv, [128, 128], B)
    acc = blackwell.allocate_tensor_memory(gl.float32, [128, 128], ACC)
    if SCALED:
        layout: gl.constexpr = blackwell.TensorMemoryScalesLayout()
        a_scale = blackwell.allocate_tensor_memory(gl.int8, [128, 4], layout)
        b_scale = blackwell.allocate_tensor_memory(gl.int8, [128, 4], layout)
        blackwell.tcgen05_mma_scaled(a, b.permute((1, 0)), acc, a_scale, b_scale, "e4m3", "e4m3", use_acc=False)
    else:
        blackwell.tcgen05_mma(a, b.permute((1, 0)), acc, use_acc=False)


def build(form):
    tile = gl.NVMMASharedLayout(128, 8, 2)
    constants = {"A": tile, "B": tile, "ACC": blackwell.TensorMemoryLayout((128, 128), col_stride=1),
                 "SCALED": form == "scaled"}  # fmt: skip
    source = GluonASTSource(multiply, dict.fromkeys(constants, "constexpr"), constants)
    return triton.compile(source, target=GPUTarget("cuda", 100, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"tcgen05\.mma\S*", build(form).asm["ptx"]))))
