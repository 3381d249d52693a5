"""Core Triton: which warp reads which fragment, and when? The tile decides the rows, and ptxas the order."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("two tiles", "one tile", "one step")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys, ROWS: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr):
    row, key, dim = tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, DIM)
    q = tl.load(q_ptr + row[:, None] * DIM + dim)
    o = tl.zeros((ROWS, DIM), tl.float32)
    for start in tl.range(0, keys, KEYS):
        s = tl.dot(q, tl.load(k_ptr + (start + key[None, :]) * DIM + dim[:, None]))
        o = tl.dot(tl.exp2(s).to(tl.float16), tl.load(v_ptr + (start + key[:, None]) * DIM + dim), o)
    tl.store(o_ptr + row[:, None] * DIM + dim, o.to(tl.float16))


def build(form):
    rows, keys, dim = {
        "two tiles": (128, 64, 64),  # with four warps: two m16 tiles per warp
        "one tile": (64, 64, 64),
        "one step": (64, 16, 16),  # nothing to load ahead
    }[form]
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", **dict.fromkeys(("ROWS", "KEYS", "DIM"), "constexpr")}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attend, signature, {"ROWS": rows, "KEYS": keys, "DIM": dim}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *re.findall(r"(?<=\}, )\{ %r\d+, %r\d+ \}(?=, \{)", kernel.asm["ptx"]))
        print(*re.findall(r"LDSM\S* R\d+, \[[^\]]+\]|HMMA\S* R\d+", kernel.asm["sass"]), sep="\n")
