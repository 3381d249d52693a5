"""Core Triton: where do cp.async copies go? Behind the products, or before them if the next tile is known late."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "rotated", "branched", "late")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, counter, keys, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    o = tl.zeros((64, 64), tl.float32)
    if FORM == "rotated":  # O += P V first, then the next Q K^T
        s = tl.dot(q, tl.load(k_ptr + k_at))
        for start in tl.range(0, keys - 64, 64):
            o = tl.dot(tl.exp2(s).to(tl.float16), tl.load(v_ptr + start * 64 + v_at), o)
            s = tl.dot(q, tl.load(k_ptr + (start + 64) * 64 + k_at))
        o += s
    elif FORM == "late":  # the end of a step says which tile the next one takes
        tile = 0
        for start in tl.range(0, keys, 64):
            s = tl.dot(q, tl.load(k_ptr + tile * 4096 + k_at))
            o = tl.dot(tl.exp2(s).to(tl.float16), tl.load(v_ptr + tile * 4096 + v_at), o)
            if start % 512 == 448:
                tile = tl.atomic_add(counter, 1, sem="relaxed")
            else:
                tile += 1
    else:
        for start in tl.range(0, keys, 64):
            s = tl.dot(q, tl.load(k_ptr + start * 64 + k_at))
            if FORM == "branched":  # noqa: SIM102
                if start > 128:
                    s = tl.where(start + column[None, :] < keys, s, -1e30)
            o = tl.dot(tl.exp2(s).to(tl.float16), tl.load(v_ptr + start * 64 + v_at), o)
    tl.store(o_ptr + v_at, o.to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "counter": "*i32", "keys": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        text = kernel.asm["ttgir"]
        loop = text[text.index("scf.for") : text.rindex("scf.yield")]
        print(form, *re.findall(r"tt\.dot|async_copy_global_to_local|async_wait", loop))
        print(*sorted(set(re.findall(r"ldmatrix\S*\.x4\S*", kernel.asm["ptx"]))), end=" ")
        print(*sorted(set(re.findall(r"LDGSTS\S*|\bLDSM\S*", kernel.asm["sass"]))))
