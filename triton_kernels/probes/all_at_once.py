"""Core Triton: can warps have roles while a product is in flight during the softmax? Four ways to ask for both."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("written", "persistent", "scores in flight", "asm")
FIRST_HALF = tl.constexpr(
    "{ .reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.lt.u32 p, t, 128; selp.b32 $0, $1, 0, p; }"
)


@triton.jit
def attend(q, k_desc, v_desc, keys, DIM: tl.constexpr, FORM: tl.constexpr):
    row_max, o = tl.full((128,), -1e30, tl.float32), tl.zeros((128, DIM), tl.float32)
    if FORM == "scores in flight" or FORM == "asm":
        if FORM == "asm":  # half of the warps get no iterations; the barriers inside would wait for them
            keys = tl.inline_asm_elementwise(FIRST_HALF, "=r,r", [keys], tl.int32, False, 1)
        s = tl.dot(q, k_desc.load([0, 0]).T)
        p_bits = tl.zeros((128, 64), tl.int16)
        for start in tl.range(0, keys, 64, warp_specialize=FORM != "asm"):
            o = tl.dot(p_bits.to(tl.float16, bitcast=True), v_desc.load([start, 0]), o)
            above = s - row_max[:, None]
            s = tl.dot(q, k_desc.load([start + 64, 0]).T)
            rise = tl.maximum(tl.max(above, 1), 0.0)
            p = tl.exp2(above - rise[:, None])
            row_max += rise
            o = o * tl.exp2(-rise)[:, None]
            p_bits = p.to(tl.float16).to(tl.int16, bitcast=True)
    else:
        for start in tl.range(0, keys, 64, warp_specialize=FORM == "written"):
            s = tl.dot(q, k_desc.load([start, 0]).T)
            new_max = tl.maximum(row_max, tl.max(s, 1))
            p = tl.exp2(s - new_max[:, None])
            o = tl.dot(p.to(tl.float16), v_desc.load([start, 0]), o * tl.exp2(row_max - new_max)[:, None])
            row_max = new_max
    return o


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, keys, tiles, DIM: tl.constexpr, FORM: tl.constexpr):
    q_desc = tl.make_tensor_descriptor(q_ptr, [keys, DIM], [DIM, 1], [128, DIM])
    k_desc = tl.make_tensor_descriptor(k_ptr, [keys, DIM], [DIM, 1], [64, DIM])
    v_desc = tl.make_tensor_descriptor(v_ptr, [keys, DIM], [DIM, 1], [64, DIM])
    o_desc = tl.make_tensor_descriptor(o_ptr, [keys, DIM], [DIM, 1], [128, DIM])
    if FORM == "persistent":
        for tile in tl.range(0, tiles, warp_specialize=True):
            o = attend(q_desc.load([tile * 128, 0]), k_desc, v_desc, keys, DIM, FORM)
            o_desc.store([tile * 128, 0], o.to(tl.float16))
    else:
        first = tl.program_id(0) * 128
        o_desc.store([first, 0], attend(q_desc.load([first, 0]), k_desc, v_desc, keys, DIM, FORM).to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "tiles": "i32", "DIM": "constexpr", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attention, signature, {"DIM": 128, "FORM": form}, attrs)
    options = {"num_warps": 8 if form == "asm" else 4, "num_stages": 2}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        try:
            kernel = build(form)
        except Exception as error:
            print(form, error, flush=True)
            continue
        order = r"partition\d+(?=\()|pendings = \d|math\.exp2"
        print(form, *re.findall(order, kernel.asm["ttgir"]))
