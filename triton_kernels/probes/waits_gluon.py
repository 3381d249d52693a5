"""Gluon: which copies to wait for. K and V are a group each, and a wait says how many groups may stay in flight."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.ampere import async_copy

FORMS = ("one", "all")
copy = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared  # renamed in 3.8


@gluon.jit
def read(k_ptr, v_ptr, o_ptr, LEFT: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    tile: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, order=[1, 0])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, rows)), gl.arange(0, 64, gl.SliceLayout(0, rows))
    at = row[:, None] * 64 + column[None, :]
    k_smem = gl.allocate_shared_memory(gl.float16, [64, 64], tile)
    v_smem = gl.allocate_shared_memory(gl.float16, [64, 64], tile)
    copy(k_smem, k_ptr + at)
    async_copy.commit_group()
    copy(v_smem, v_ptr + at)
    async_copy.commit_group()
    async_copy.wait_group(LEFT)
    k = k_smem.load(rows)
    async_copy.wait_group(0)
    gl.store(o_ptr + at, k + v_smem.load(rows))


def build(form):
    pointers = dict.fromkeys(("k_ptr", "v_ptr", "o_ptr"), "*fp16")
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = GluonASTSource(read, {**pointers, "LEFT": "constexpr"}, {"LEFT": 1 if form == "one" else 0}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"cp\.async\.wait_group\s+\w+", build(form).asm["ptx"]))
