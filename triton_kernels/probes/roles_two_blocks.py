"""Core Triton: roles, and a product in flight during the softmax, with two blocks of rows in a tile.

The compiler waits for each product before it issues anything else. If a consumer has two blocks of rows, ptxas finds
arithmetic that need not wait for the second product: the softmax of the first block.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("one block", "two blocks", "persistent")


@triton.jit
def attend(q0, q1, k_desc, v_desc, keys, TWO: tl.constexpr, ROLES: tl.constexpr):
    max0, max1 = tl.full((128,), -1e30, tl.float32), tl.full((128,), -1e30, tl.float32)
    o0, o1 = tl.zeros((128, 64), tl.float32), tl.zeros((128, 64), tl.float32)
    for start in tl.range(0, keys, 64, warp_specialize=ROLES):
        k, v = k_desc.load([start, 0]).T, v_desc.load([start, 0])
        s0 = tl.dot(q0, k)
        if TWO:
            s1 = tl.dot(q1, k)
        new_max = tl.maximum(max0, tl.max(s0, 1))
        o0 = tl.dot(tl.exp2(s0 - new_max[:, None]).to(tl.float16), v, o0 * tl.exp2(max0 - new_max)[:, None])
        max0 = new_max
        if TWO:
            new_max = tl.maximum(max1, tl.max(s1, 1))
            o1 = tl.dot(tl.exp2(s1 - new_max[:, None]).to(tl.float16), v, o1 * tl.exp2(max1 - new_max)[:, None])
            max1 = new_max
    return o0, o1


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, keys, tiles, TWO: tl.constexpr, PERSISTENT: tl.constexpr):
    q_desc = tl.make_tensor_descriptor(q_ptr, [keys, 64], [64, 1], [128, 64])
    k_desc = tl.make_tensor_descriptor(k_ptr, [keys, 64], [64, 1], [64, 64])
    v_desc = tl.make_tensor_descriptor(v_ptr, [keys, 64], [64, 1], [64, 64])
    o_desc = tl.make_tensor_descriptor(o_ptr, [keys, 64], [64, 1], [128, 64])
    if PERSISTENT:
        for tile in tl.range(0, tiles, warp_specialize=True):
            q0, q1 = q_desc.load([tile * 256, 0]), q_desc.load([tile * 256 + 128, 0])
            o0, o1 = attend(q0, q1, k_desc, v_desc, keys, TWO, False)
            o_desc.store([tile * 256, 0], o0.to(tl.float16))
            o_desc.store([tile * 256 + 128, 0], o1.to(tl.float16))
    else:
        row = tl.program_id(0) * 256
        q0, q1 = q_desc.load([row, 0]), q_desc.load([row + 128, 0])
        o0, o1 = attend(q0, q1, k_desc, v_desc, keys, TWO, True)
        o_desc.store([row, 0], o0.to(tl.float16))
        if TWO:
            o_desc.store([row + 128, 0], o1.to(tl.float16))


def build(form):
    constants = {"TWO": form != "one block", "PERSISTENT": form == "persistent"}
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "tiles": "i32", **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(attention, signature, constants, {(i,): [["tt.divisibility", 16]] for i in range(5)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    # Q K^T has both operands in shared memory, P V its first in registers.
    order = r"USETMAXREG|HGMMA(?=\S* R\d+, gdesc)|MUFU\.EX2|WARPGROUP\.DEPBAR"
    for form in FORMS:
        found = " ".join(re.findall(order, build(form).asm["sass"]))
        print(form, re.sub(r"(\S+)(?: \1)+", r"\1 ...", found), flush=True)
