"""Core Triton: is a product in flight during the softmax, in the usual loops? The compiler waits for it first."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "rotated", "gemm")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    o, row_max = tl.zeros((128, 64), tl.float32), tl.full((128,), -1e30, tl.float32)
    if FORM == "gemm":  # no softmax between the products
        for start in tl.range(0, keys, 64):
            o = tl.dot(q, tl.load(k_ptr + start * 64 + k_at), o)
    else:
        s = tl.dot(q, tl.load(k_ptr + k_at))
        for start in tl.range(0, keys, 64):
            if FORM == "rotated":  # the next Q K^T comes before the softmax of these scores
                next_s = tl.dot(q, tl.load(k_ptr + (start + 64) * 64 + k_at))
            else:
                s = tl.dot(q, tl.load(k_ptr + start * 64 + k_at))
            new_max = tl.maximum(row_max, tl.max(s, 1))
            p = tl.exp2(s - new_max[:, None])
            o = o * tl.exp2(row_max - new_max)[:, None]
            o = tl.dot(p.to(tl.float16), tl.load(v_ptr + start * 64 + v_at), o)
            row_max = new_max
            if FORM == "rotated":
                s = next_s
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        text = build(form).asm["ttgir"]
        loop = text[text.index("scf.for") : text.index("scf.yield", text.index("scf.for"))]
        print(form, *re.findall(r"warp_group_dot |pendings = \d+|math\.exp2", loop))
