"""Core Triton: an if in tl.map_elementwise becomes a branch of each thread where its body holds 16 exponentials."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("packed 80", "plain 80", "packed 90", "plain 90")


@triton.jit
def rescaled(o0, o1, o2, o3, o4, o5, o6, o7, o8, o9, oa, ob, oc, od, oe, of,
             d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, da, db, dc, dd, de, df):  # fmt: skip
    """16 elements of O, each with the fall of its row's maximum: none falls in most iterations."""
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
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys, PACKED: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    o, row_sum = tl.zeros((128, 64), tl.float32), tl.zeros((128,), tl.float32)
    row_max = tl.full((128,), -1e30, tl.float32)
    for start in tl.range(0, keys, 64):
        s = tl.dot(q, tl.load(k_ptr + start * 64 + k_at))
        top = tl.max(s, 1)
        fall = tl.where(row_max - top < -2.0, row_max - top, 0.0)
        row_max -= fall
        p = tl.exp2(s - row_max[:, None])
        row_sum = row_sum * tl.exp2(fall) + tl.sum(p, 1)
        falls = tl.broadcast_to(fall[:, None], (128, 64))
        o = tl.map_elementwise(rescaled, o, falls, pack=16)[0] if PACKED else o * tl.exp2(falls)
        o = tl.dot(p.to(tl.float16), tl.load(v_ptr + start * 64 + v_at), o)
    tl.store(o_ptr + row[:, None] * 64 + dim, (o / row_sum[:, None]).to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "PACKED": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attend, signature, {"PACKED": "packed" in form}, attrs)
    target = GPUTarget("cuda", int(form.split()[1]), 32)
    return triton.compile(source, target=target, options={"num_warps": 8, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        branches = re.findall(r"\bBSSY\b.*?\bBSYNC\b", build(form).asm["sass"], re.DOTALL)
        print(form, *(line.strip() for branch in branches for line in re.findall(r"\bFMUL\b", branch)))
