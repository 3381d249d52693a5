"""Core Triton: named barriers by inline PTX. The compiler does not know about them."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("asm", "plain", "debug_barrier")
LOCK = """{ .reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.lt.u32 p, t, 128;
@p bar.sync 9, 256; @!p bar.arrive 9, 256; mov.b32 $0, $1; }"""


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys, FORM: tl.constexpr, LOCK: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    o, row_max = tl.zeros((128, 64), tl.float32), tl.full((128,), -1e30, tl.float32)
    for start in tl.range(0, keys, 64):
        s = tl.dot(q, tl.load(k_ptr + (start + column)[None, :] * 64 + dim[:, None]))
        new_max = tl.maximum(row_max, tl.max(s, 1))
        if FORM == "asm":
            new_max = tl.inline_asm_elementwise(LOCK, "=r,r", [new_max], dtype=tl.float32, is_pure=False, pack=1)
        elif FORM == "debug_barrier":
            tl.debug_barrier()
        o = o * tl.exp2(row_max - new_max)[:, None]
        v = tl.load(v_ptr + (start + column)[:, None] * 64 + dim[None, :])
        o = tl.dot(tl.exp2(s - new_max[:, None]).to(tl.float16), v, o)
        row_max = new_max
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "FORM": "constexpr", "LOCK": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attend, signature, {"FORM": form, "LOCK": LOCK}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"BAR\.\w+\S* 0x\w+(?:, 0x\w+)?", build(form).asm["sass"]))))
