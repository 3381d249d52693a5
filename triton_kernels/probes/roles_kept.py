"""Core Triton on sm_90: what may a loop with tl.range(warp_specialize=True) have, so that it still gets roles?"""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "K and V by the host", "O by the host", "if", "elementwise")
BY_THE_HOST = {"K and V by the host": "kv", "O by the host": "o"}


@triton.jit
def rescaled(a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7):
    if b0 + b1 + b2 + b3 + b4 + b5 + b6 + b7 < 0:
        a0, a1, a2, a3 = a0 * tl.exp2(b0), a1 * tl.exp2(b1), a2 * tl.exp2(b2), a3 * tl.exp2(b3)
        a4, a5, a6, a7 = a4 * tl.exp2(b4), a5 * tl.exp2(b5), a6 * tl.exp2(b6), a7 * tl.exp2(b7)
    return a0, a1, a2, a3, a4, a5, a6, a7


@triton.jit
def attention(q_desc, k_desc, v_desc, o_desc, keys, DIM: tl.constexpr, ROWS: tl.constexpr, FORM: tl.constexpr):
    if FORM != "K and V by the host":
        k_desc = tl.make_tensor_descriptor(k_desc, [keys, DIM], [DIM, 1], [64, DIM])
        v_desc = tl.make_tensor_descriptor(v_desc, [keys, DIM], [DIM, 1], [64, DIM])
    q_desc = tl.make_tensor_descriptor(q_desc, [keys, DIM], [DIM, 1], [ROWS, DIM])
    if FORM != "O by the host":
        o_desc = tl.make_tensor_descriptor(o_desc, [keys, DIM], [DIM, 1], [ROWS, DIM])
    first = tl.program_id(0) * ROWS
    row_max, row_sum = tl.full((ROWS,), -1e30, tl.float32), tl.zeros((ROWS,), tl.float32)
    o = tl.zeros((ROWS, DIM), tl.float32)
    q = q_desc.load([first, 0])
    for start in tl.range(0, keys, 64, warp_specialize=True):
        s = tl.dot(q, k_desc.load([start, 0]).T)
        if FORM == "if":  # lazy_rescale's
            rise = tl.max(s, 1) - row_max
            if tl.max(rise, 0) > 2.0:
                new_max = tl.maximum(row_max, row_max + rise)
                row_sum *= tl.exp2(row_max - new_max)
                o *= tl.exp2(row_max - new_max)[:, None]
                row_max = new_max
        else:
            new_max = tl.maximum(row_max, tl.max(s, 1))
            fall = row_max - new_max
            row_sum *= tl.exp2(fall)
            if FORM == "elementwise":
                o = tl.map_elementwise(rescaled, o, tl.broadcast_to(fall[:, None], (ROWS, DIM)), pack=8)[0]
            else:
                o *= tl.exp2(fall)[:, None]
            row_max = new_max
        p = tl.exp2(s - row_max[:, None])
        row_sum += tl.sum(p, 1)
        o = tl.dot(p.to(tl.float16), v_desc.load([start, 0]), o)
    o_desc.store([first, 0], (o / row_sum[:, None]).to(tl.float16))


def build(form):
    rows, hosted = {"q": 128, "k": 64, "v": 64, "o": 128}, BY_THE_HOST.get(form, "")
    tensors = {f"{x}_desc": f"tensordesc<fp16[{rows[x]},128]>" if x in hosted else "*fp16" for x in rows}
    constants = {"DIM": 128, "ROWS": 128, "FORM": form}
    signature = {**tensors, "keys": "i32", **dict.fromkeys(constants, "constexpr")}
    pointers = [at for at, kind in enumerate(tensors.values()) if kind == "*fp16"]
    source = ASTSource(attention, signature, constants, {(at,): [["tt.divisibility", 16]] for at in [*pointers, 4]})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, "warps", build(form).metadata.num_warps, flush=True)
        except Exception as error:
            print(form, error, flush=True)
