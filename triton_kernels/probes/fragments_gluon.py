"""Gluon: which warp reads which fragment, and when? The layout decides the rows, and the calls the order."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

FORMS = ("one tile", "two tiles", "pairs", "ahead")


@gluon.jit
def read(k_smem, d: gl.constexpr, mma: gl.constexpr):
    return k_smem.slice(d, 16, 1).permute((1, 0)).load(gl.DotOperandLayout(1, mma, 2))


@gluon.jit
def attend(o_ptr, steps, ROWS: gl.constexpr, WARPS: gl.constexpr, AHEAD: gl.constexpr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], WARPS, [16, 8])
    operand: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    q_smem = gl.allocate_shared_memory(gl.float16, [ROWS, 64], shared)
    k_smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    v_smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    o, row_max = gl.zeros([ROWS, 64], gl.float32, mma), gl.full([ROWS], -1e30, gl.float32, gl.SliceLayout(1, mma))
    for _ in range(steps):
        s = gl.zeros([ROWS, 64], gl.float32, mma)
        k = read(k_smem, 0, mma)
        for d in gl.static_range(0, 64, 16):
            if AHEAD and d < 48:  # read the next fragments of K before these are multiplied
                next_k = read(k_smem, d + 16, mma)
            s = mma_v2(q_smem.slice(d, 16, 1).load(operand), k, s)
            if d < 48:
                k = next_k if AHEAD else read(k_smem, d + 16, mma)
        new_max = gl.maximum(row_max, gl.max(s, 1))
        p = gl.exp2(s - new_max[:, None]).to(gl.float16)
        o = o * gl.exp2(row_max - new_max)[:, None]
        o = mma_v2(gl.convert_layout(p, operand), v_smem.load(gl.DotOperandLayout(1, mma, 2)), o)
        row_max = new_max
    row, column = gl.arange(0, ROWS, gl.SliceLayout(1, mma)), gl.arange(0, 64, gl.SliceLayout(0, mma))
    gl.store(o_ptr + row[:, None] * 64 + column[None, :], o)


def build(form):
    constants = {
        "ROWS": 128 if form == "two tiles" else 64,
        "WARPS": [4, 2] if form == "pairs" else [4, 1],
        "AHEAD": form == "ahead",
    }
    signature = {"o_ptr": "*fp32", "steps": "i32", **dict.fromkeys(constants, "constexpr")}
    source = GluonASTSource(attend, signature, constants)
    options = {"num_warps": 8 if form == "pairs" else 4}
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *re.findall(r"nvidia_mma<.*?warpsPerCTA = \[\d, \d\]", kernel.asm["ttgir"]))
        print(*re.findall(r"ldmatrix(?=\.sync)|mma(?=\.sync\.)|(?<=\}, )\{ %r\d+, %r\d+ \}(?=, \{)", kernel.asm["ptx"]))
