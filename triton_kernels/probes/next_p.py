"""Core Triton: is the next P converted while P V still reads this one? Yes, if the loop carries the bits of P."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("bits", "values")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, steps, BITS: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    q, o = tl.load(q_ptr + row[:, None] * 64 + dim), tl.zeros((128, 64), tl.float32)
    row_max, row_sum = tl.full((128,), -1e30, tl.float32), tl.zeros((128,), tl.float32)
    p, rescale = tl.zeros((128, 64), tl.int16 if BITS else tl.float16), tl.full((128,), 1.0, tl.float32)
    for step in tl.range(0, steps):  # Q K^T of this step, P V of the step before, softmax of this step
        s = tl.dot(q, tl.load(k_ptr + step * 4096 + k_at))
        v = tl.load(v_ptr + (step - 1) * 4096 + v_at)
        o = tl.dot(p.to(tl.float16, bitcast=True), v, o * rescale[:, None])
        new_max = tl.maximum(row_max, tl.max(s, 1))
        rescale = tl.exp2(row_max - new_max)
        weights = tl.exp2(s - new_max[:, None])
        row_sum = row_sum * rescale + tl.sum(weights, 1)
        p = weights.to(tl.float16).to(p.dtype, bitcast=True)
        row_max = new_max
    v = tl.load(v_ptr + (steps - 1) * 4096 + v_at)
    o = tl.dot(p.to(tl.float16, bitcast=True), v, o * rescale[:, None])
    tl.store(o_ptr + row[:, None] * 64 + dim, (o / row_sum[:, None]).to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "steps": "i32", "BITS": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(attend, signature, {"BITS": form == "bits"}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        order = r"wgmma\.mma_async(?=\S* \{[^}\n]*\}, ?\{)|wait_group\.sync\S*\s+\d|\bcvt(?=\.rn\.\S*f16)"
        print(form, *re.findall(order, build(form).asm["ptx"]))
