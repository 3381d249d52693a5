"""Gluon: missing rows are zeros, and row sums that stay in pieces need no shuffles."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy, mma_v2

FORMS = ("whole", "masked", "pieces")
load_async = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def attend(k_ptr, o_ptr, sum_ptr, keys, MASKED: gl.constexpr, PIECES: gl.constexpr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [4, 1], [16, 8])
    operand: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    row, dim = gl.arange(0, 64, gl.SliceLayout(1, rows)), gl.arange(0, 64, gl.SliceLayout(0, rows))
    smem = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    o, q = gl.zeros([64, 64], gl.float32, mma), gl.zeros([64, 64], gl.float16, operand)
    row_sum = gl.zeros([64], gl.float32, gl.SliceLayout(1, mma))
    pieces = gl.sum(o.reshape([64, 8, 8]), 1)
    for start in range(0, keys, 64):
        k_ptrs = k_ptr + (start + row)[:, None] * 64 + dim[None, :]
        if MASKED:
            load_async(smem, k_ptrs, mask=(start + row < keys)[:, None])
        else:
            load_async(smem, k_ptrs)
        async_copy.commit_group()
        async_copy.wait_group(0)
        s = mma_v2(q, smem.permute((1, 0)).load(gl.DotOperandLayout(1, mma, 2)), gl.zeros([64, 64], gl.float32, mma))
        p = gl.exp2(s)
        if PIECES:  # as many pieces as a fragment has columns: no lane needs another's sums
            pieces += gl.sum(p.reshape([64, 8, 8]), 1)
        else:
            row_sum += gl.sum(p, 1)
        o = mma_v2(gl.convert_layout(p.to(gl.float16), operand), smem.load(gl.DotOperandLayout(1, mma, 2)), o)
    if PIECES:
        row_sum = gl.convert_layout(gl.sum(pieces, 1), gl.SliceLayout(1, mma))
    gl.store(sum_ptr + gl.arange(0, 64, gl.SliceLayout(1, mma)), row_sum)
    gl.store(o_ptr + row[:, None] * 64 + dim[None, :], gl.convert_layout(o, rows))


def build(form):
    signature = {"k_ptr": "*fp16", "o_ptr": "*fp32", "sum_ptr": "*fp32", "keys": "i32"}
    constants = {"MASKED": form == "masked", "PIECES": form == "pieces"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = GluonASTSource(attend, {**signature, **dict.fromkeys(constants, "constexpr")}, constants, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *re.findall(r"cp\.async\S* \[[^\]]+\], \[[^\]]+\], 0x10, %r\d+", kernel.asm["ptx"]), sep="\n")
        print(*re.findall(r"MUFU\.EX2|SHFL\.BFLY|HMMA|\bBRA\b", kernel.asm["sass"]))
