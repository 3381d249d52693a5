"""Core Triton: a store that never happens, masked by values, keeps the exponentials before the wait for a product."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("free", "sums", "maxima")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, never_ptr, steps, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    q, o = tl.load(q_ptr + row[:, None] * 64 + dim), tl.zeros((128, 64), tl.float32)
    row_max, row_sum = tl.full((128,), -1e30, tl.float32), tl.zeros((128,), tl.float32)
    s = tl.dot(q, tl.load(k_ptr + k_at))
    p_bits = tl.zeros((128, 64), tl.int16)
    for step in tl.range(0, steps):  # the next Q K^T is in flight during the softmax of these scores
        o = tl.dot(p_bits.to(tl.float16, bitcast=True), tl.load(v_ptr + step * 4096 + v_at), o)
        above = s - row_max[:, None]
        s = tl.dot(q, tl.load(k_ptr + (step + 1) * 4096 + k_at))
        rise = tl.maximum(tl.max(above, 1), 0.0)
        if FORM == "maxima":  # none is as large
            tl.store(never_ptr + row, rise, mask=rise > 1e30)
        p = tl.exp2(above - rise[:, None])
        row_max += rise
        row_sum = row_sum * tl.exp2(-rise) + tl.sum(p, 1)
        if FORM == "sums":  # none is negative
            tl.store(never_ptr + row, row_sum, mask=row_sum < 0.0)
        o = o * tl.exp2(-rise)[:, None]
        p_bits = p.to(tl.float16).to(tl.int16, bitcast=True)
    tl.store(o_ptr + row[:, None] * 64 + dim, (o / row_sum[:, None]).to(tl.float16))


def build(form):
    pointers = {**dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16"), "never_ptr": "*fp32"}
    signature = {**pointers, "steps": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"\bHGMMA\b|MUFU\.EX2|\bSTG\b|WARPGROUP\.DEPBAR", build(form).asm["sass"]))
