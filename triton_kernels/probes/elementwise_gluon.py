"""Gluon: an if in gl.map_elementwise becomes a branch of each thread where its body holds 16 exponentials."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("packed", "single", "plain")


@gluon.jit
def packed(o0, o1, o2, o3, o4, o5, o6, o7, o8, o9, oa, ob, oc, od, oe, of,
           d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, da, db, dc, dd, de, df):  # fmt: skip
    falls = (d0 < 0.0) | (d1 < 0.0) | (d2 < 0.0) | (d3 < 0.0) | (d4 < 0.0) | (d5 < 0.0) | (d6 < 0.0) | (d7 < 0.0)
    falls |= (d8 < 0.0) | (d9 < 0.0) | (da < 0.0) | (db < 0.0) | (dc < 0.0) | (dd < 0.0) | (de < 0.0) | (df < 0.0)
    if falls:
        o0 *= gl.exp2(d0)
        o1 *= gl.exp2(d1)
        o2 *= gl.exp2(d2)
        o3 *= gl.exp2(d3)
        o4 *= gl.exp2(d4)
        o5 *= gl.exp2(d5)
        o6 *= gl.exp2(d6)
        o7 *= gl.exp2(d7)
        o8 *= gl.exp2(d8)
        o9 *= gl.exp2(d9)
        oa *= gl.exp2(da)
        ob *= gl.exp2(db)
        oc *= gl.exp2(dc)
        od *= gl.exp2(dd)
        oe *= gl.exp2(de)
        of *= gl.exp2(df)
    return o0, o1, o2, o3, o4, o5, o6, o7, o8, o9, oa, ob, oc, od, oe, of


@gluon.jit
def single(o, rescale):
    if rescale != 1.0:
        o = o * rescale
    return o


@gluon.jit
def rescale_rows(o_ptr, fall_ptr, y_ptr, FORM: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 16], [8, 4], [4, 1], [1, 0])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    at = row[:, None] * 64 + column[None, :]
    o, fall = gl.load(o_ptr + at), gl.load(fall_ptr + at)
    if FORM == "packed":
        o = gl.map_elementwise(packed, o, fall, pack=16)[0]
    elif FORM == "single":
        o = gl.map_elementwise(single, o, fall)
    else:
        o = o * gl.exp2(fall)
    gl.store(y_ptr + at, o)


def build(form):
    signature = {**dict.fromkeys(("o_ptr", "fall_ptr", "y_ptr"), "*fp32"), "FORM": "constexpr"}
    source = GluonASTSource(rescale_rows, signature, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        branches = re.findall(r"\bBSSY\b.*?\bBSYNC\b", kernel.asm["sass"], re.DOTALL)
        print(form, *(line for branch in branches for line in re.findall(r"\bFMUL\b", branch)), end=" ")
        print(*sorted(set(re.findall(r"@%p\d+ bra\b|\bselp\S*", kernel.asm["ptx"]))))
