"""Core Triton: how many buffers do K and V get? Each as many as num_stages says, unless V's load is under an if."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "branch", "volatile", "cg", "opaque", "inner loop", "num_stages of a loop", "one stage")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, scale, keys, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    row_max, row_sum = tl.full((64,), -1e30, tl.float32), tl.zeros((64,), tl.float32)
    o = tl.zeros((64, 64), tl.float32)
    for start in tl.range(0, keys, 64, num_stages=2 if FORM == "num_stages of a loop" else None):
        s = tl.dot(q, tl.load(k_ptr + (start + column)[None, :] * 64 + dim[:, None])) * scale
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p, rescale = tl.exp2(s - new_max[:, None]), tl.exp2(row_max - new_max)
        row_sum = row_sum * rescale + tl.sum(p, 1)
        at = (start + column)[:, None] * 64 + dim[None, :]
        if FORM == "branch":
            v = tl.zeros((64, 64), tl.float16)
            if scale != 0.0:
                v = tl.load(v_ptr + at)
        elif FORM == "inner loop":
            v = tl.zeros((64, 64), tl.float16)
            for _ in range(1):
                v = tl.load(v_ptr + at)
        elif FORM == "volatile":
            v = tl.load(v_ptr + at, volatile=True)
        elif FORM == "cg":
            v = tl.load(v_ptr + at, cache_modifier=".cg")
        elif FORM == "opaque":
            same = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [at], dtype=tl.int32, is_pure=True, pack=1)
            v = tl.load(v_ptr + same)
        else:
            v = tl.load(v_ptr + at)
        o = tl.dot(p.to(tl.float16), v, o * rescale[:, None])
        row_max = new_max
    tl.store(o_ptr + row[:, None] * 64 + dim, (o / row_sum[:, None]).to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "scale": "fp32", "keys": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in (0, 1, 2, 3, 5)}
    options = {"num_warps": 4, "num_stages": 1 if form == "one stage" else 3}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        buffers = re.findall(r"local_alloc : \(\) -> !ttg.memdesc<\d+x64x64xf16[^>]*>", kernel.asm["ttgir"])
        print(form, *buffers, "shared", kernel.metadata.shared)
