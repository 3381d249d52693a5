"""Core Triton: tiles cut by the end of a sequence. Missing rows are zeros, also with cp.async."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("masked", "whole")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys, MASKED: tl.constexpr):
    row, column, dim = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    q, o = tl.load(q_ptr + row[:, None] * 64 + dim), tl.zeros((64, 64), tl.float32)
    for start in tl.range(0, keys, 64):
        k_ptrs, v_ptrs = k_ptr + (start + column[:, None]) * 64 + dim, v_ptr + (start + column[:, None]) * 64 + dim
        if MASKED:
            exists = (start + column < keys)[:, None]
            k, v = tl.load(k_ptrs, exists, 0.0), tl.load(v_ptrs, exists, 0.0)
        else:
            k, v = tl.load(k_ptrs), tl.load(v_ptrs)
        s = tl.dot(q, k.T)
        if MASKED:
            s = tl.where((start + column < keys)[None, :], s, -1e30)
        o = tl.dot(tl.exp2(s).to(tl.float16), v, o)
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "MASKED": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(attend, signature, {"MASKED": form == "masked"}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *re.findall(r"async_copy_global_to_local .* mask %\w+ other %\w+", kernel.asm["ttgir"]), sep="\n")
