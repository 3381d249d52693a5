"""Gluon: two blocks compute one product on sm_100. The accumulator's layout asks for it; nothing waits for it here."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia import blackwell

FORMS = ("two blocks", "one block")


@gluon.jit
def multiply(A: gl.constexpr, B: gl.constexpr, ACC: gl.constexpr, M: gl.constexpr):
    a = gl.allocate_shared_memory(gl.float16, [M, 64], A)
    b = gl.allocate_shared_memory(gl.float16, [64, 128], B)
    acc = blackwell.allocate_tensor_memory(gl.float32, [M, 128], ACC)
    blackwell.tcgen05_mma(a, b, acc, use_acc=False)


def layouts(pair):
    if not pair:
        return gl.NVMMASharedLayout(128, 16, 2), gl.NVMMASharedLayout(128, 16, 2)
    return gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[1, 0]]), gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 1]])


def accumulator(pair):
    if not pair:
        return blackwell.TensorMemoryLayout((128, 128), col_stride=1)
    try:
        return blackwell.TensorMemoryLayout((128, 128), col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    except TypeError:  # before 3.8
        return blackwell.TensorMemoryLayout((128, 128), col_stride=1, cta_split_num=(2, 1), two_ctas=True)


def build(form):
    pair = form == "two blocks"
    a, b = layouts(pair)
    constants = {"A": a, "B": b, "ACC": accumulator(pair), "M": 256 if pair else 128}
    source = GluonASTSource(multiply, dict.fromkeys(constants, "constexpr"), constants)
    options = {"num_warps": 4, "num_ctas": 2 if pair else 1}
    return triton.compile(source, target=GPUTarget("cuda", 100, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"tcgen05\.mma\S*", build(form).asm["ptx"]))
