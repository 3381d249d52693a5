"""Core Triton: is O multiplied while the next Q K^T is in flight? In this order of statements, except behind an if."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("every step", "elementwise", "if")


@triton.jit
def rescaled(o0, o1, o2, o3, o4, o5, o6, o7, o8, o9, oa, ob, oc, od, oe, of,
             d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, da, db, dc, dd, de, df):  # fmt: skip
    falls = (d0 < 0.0) | (d1 < 0.0) | (d2 < 0.0) | (d3 < 0.0) | (d4 < 0.0) | (d5 < 0.0) | (d6 < 0.0) | (d7 < 0.0)
    falls |= (d8 < 0.0) | (d9 < 0.0) | (da < 0.0) | (db < 0.0) | (dc < 0.0) | (dd < 0.0) | (de < 0.0) | (df < 0.0)
    if falls:
        o0 *= tl.exp2(d0)
        o1 *= tl.exp2(d1)
        o2 *= tl.exp2(d2)
        o3 *= tl.exp2(d3)
        o4 *= tl.exp2(d4)
        o5 *= tl.exp2(d5)
        o6 *= tl.exp2(d6)
        o7 *= tl.exp2(d7)
        o8 *= tl.exp2(d8)
        o9 *= tl.exp2(d9)
        oa *= tl.exp2(da)
        ob *= tl.exp2(db)
        oc *= tl.exp2(dc)
        od *= tl.exp2(dd)
        oe *= tl.exp2(de)
        of *= tl.exp2(df)
    return o0, o1, o2, o3, o4, o5, o6, o7, o8, o9, oa, ob, oc, od, oe, of


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    s = tl.maximum(tl.dot(q, tl.load(k_ptr + k_at)), -3e38, propagate_nan=tl.PropagateNan.ALL)
    o, row_max, bits = tl.zeros((128, 64), tl.float32), tl.max(s, 1), tl.zeros((128, 64), tl.int16)
    for start in tl.range(0, keys, 64):  # P V of the step before, the next Q K^T, the softmax of this step
        o = tl.dot(bits.to(tl.float16, bitcast=True), tl.load(v_ptr + start * 64 + v_at), o)
        above = s - row_max[:, None]
        s = tl.dot(q, tl.load(k_ptr + (start + 64) * 64 + k_at))
        rise = tl.maximum(tl.max(above, 1), 0.0)
        bits = tl.exp2(above - rise[:, None]).to(tl.float16).to(tl.int16, bitcast=True)
        row_max += rise
        if FORM == "every step":
            o = o * tl.exp2(-rise)[:, None]
        elif FORM == "elementwise":
            o = tl.map_elementwise(rescaled, o, tl.broadcast_to(-rise[:, None], (128, 64)), pack=16)[0]
        elif tl.max(rise, 0) > 0.0:
            o = o * tl.exp2(-rise)[:, None]
    o = tl.dot(bits.to(tl.float16, bitcast=True), tl.load(v_ptr + v_at), o)
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"HGMMA|WARPGROUP\.DEPBAR|FMUL|\bBRA\b", build(form).asm["sass"]))
