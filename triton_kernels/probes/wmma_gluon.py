"""Gluon: layouts name mma.sync or wgmma. Inline PTX can issue wmma, but PTX leaves its element layout undefined."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

FORMS = ("asm", "plain", "mma_v2")
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {$0, $1, $2, $3}, " + ", ".join(
    ["{$4, $4, $4, $4, $4, $4, $4, $4}", "{$5, $5, $5, $5, $5, $5, $5, $5}", "{$4, $5, $4, $5};"]
)


@gluon.jit
def multiply(x_ptr, y_ptr, ASM: gl.constexpr):
    index = gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0]))
    x = gl.load(x_ptr + index)
    if ASM != "":
        x, y, z, w = gl.inline_asm_elementwise(
            ASM,
            "=r,=r,=r,=r,r,r",
            [x, x],
            dtype=(gl.int32, gl.int32, gl.int32, gl.int32),
            is_pure=False,
            pack=1,
        )
        x += y + z + w
    gl.store(y_ptr + index, x)


@gluon.jit
def multiply_tiles(y_ptr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    a = gl.full([64, 16], 1.0, gl.float16, gl.DotOperandLayout(0, mma, 2))
    b = gl.full([16, 16], 1.0, gl.float16, gl.DotOperandLayout(1, mma, 2))
    c = mma_v2(a, b, gl.zeros([64, 16], gl.float32, mma))
    row, column = gl.arange(0, 64, gl.SliceLayout(1, mma)), gl.arange(0, 16, gl.SliceLayout(0, mma))
    gl.store(y_ptr + row[:, None] * 16 + column[None, :], c)


def build(form):
    if form == "mma_v2":
        source = GluonASTSource(multiply_tiles, {"y_ptr": "*fp32"})
    else:
        signature = {"x_ptr": "*i32", "y_ptr": "*i32", "ASM": "constexpr"}
        source = GluonASTSource(multiply, signature, {"ASM": WMMA if form == "asm" else ""})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"\bw?mma\.(?:mma|sync)\S*", build(form).asm["ptx"]))
