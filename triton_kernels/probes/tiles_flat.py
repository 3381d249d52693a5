"""Core Triton: is a product in flight, or a load, where one tile of O ends and the next begins? Ways to ask for it."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("nested", "flatten", "flatten causal", "by hand", "counter")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, counter, tiles, steps, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    q_at = row[:, None] * 64 + dim
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    if FORM == "by hand":  # one loop: the next tile's Q K^T comes before the if that stores O
        q, o = tl.load(q_ptr + q_at), tl.zeros((128, 64), tl.float32)
        row_max = tl.full((128,), -1e30, tl.float32)
        s = tl.dot(q, tl.load(k_ptr + k_at))
        p_bits = tl.zeros((128, 64), tl.int16)
        for step in tl.range(0, tiles * steps):
            o = tl.dot(p_bits.to(tl.float16, bitcast=True), tl.load(v_ptr + step * 4096 + v_at), o)
            above = s - row_max[:, None]
            q = tl.load(q_ptr + (step + 1) // steps * 8192 + q_at)
            s = tl.dot(q, tl.load(k_ptr + (step + 1) % steps * 4096 + k_at))
            rise = tl.maximum(tl.max(above, 1), 0.0)
            p = tl.exp2(above - rise[:, None])
            row_max += rise
            o = o * tl.exp2(-rise)[:, None]
            p_bits = p.to(tl.float16).to(tl.int16, bitcast=True)
            if step % steps == steps - 1:
                tl.store(o_ptr + step // steps * 8192 + q_at, o.to(tl.float16))
                o = o * 0.0
                row_max = row_max * 0.0 - 1e30
    elif FORM == "counter":  # one loop again, in which a tile's number is taken where the tile begins
        o, row_max = tl.zeros((128, 64), tl.float32), tl.full((128,), -1e30, tl.float32)
        at, tile = steps - 1, 0
        for _ in tl.range(0, tiles * steps):
            at = tl.where(at == steps - 1, 0, at + 1)
            if at == 0:
                tile = tl.atomic_add(counter, 1, sem="relaxed")
            s = tl.dot(tl.load(q_ptr + tile * 8192 + q_at), tl.load(k_ptr + at * 4096 + k_at))
            new_max = tl.maximum(row_max, tl.max(s, 1))
            p = tl.exp2(s - new_max[:, None])
            o = o * tl.exp2(row_max - new_max)[:, None]
            row_max = new_max
            o = tl.dot(p.to(tl.float16), tl.load(v_ptr + at * 4096 + v_at), o)
            if at == steps - 1:
                tl.store(o_ptr + tile * 8192 + q_at, o.to(tl.float16))
                o = o * 0.0
                row_max = row_max * 0.0 - 1e30
    else:
        for tile in tl.range(0, tiles, flatten=FORM != "nested"):
            q, o = tl.load(q_ptr + tile * 8192 + q_at), tl.zeros((128, 64), tl.float32)
            row_max = tl.full((128,), -1e30, tl.float32)
            s = tl.dot(q, tl.load(k_ptr + k_at))
            p_bits = tl.zeros((128, 64), tl.int16)
            for step in tl.range(0, tile + 1 if FORM == "flatten causal" else steps):
                o = tl.dot(p_bits.to(tl.float16, bitcast=True), tl.load(v_ptr + step * 4096 + v_at), o)
                above = s - row_max[:, None]
                s = tl.dot(q, tl.load(k_ptr + (step + 1) * 4096 + k_at))
                rise = tl.maximum(tl.max(above, 1), 0.0)
                p = tl.exp2(above - rise[:, None])
                row_max += rise
                o = o * tl.exp2(-rise)[:, None]
                p_bits = p.to(tl.float16).to(tl.int16, bitcast=True)
            tl.store(o_ptr + tile * 8192 + q_at, o.to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "counter": "*i32", "tiles": "i32", "steps": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        order = r"commit_group(?=\.sync)|wait_group(?=\.sync)|\bex2(?=\.approx)|\bst\.global"
        print(form, *re.findall(order, build(form).asm["ptx"]))
