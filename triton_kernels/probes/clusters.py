"""Core Triton: with num_ctas=2, does a load go to both blocks, and do two blocks compute one product together?"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("90 two", "90 one", "100 two", "100 one", "90 attention two", "90 attention one")


@triton.jit
def product(a_desc, b_desc, c_desc, depth, ROWS: tl.constexpr):
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * 128
    c = tl.zeros((ROWS, 128), tl.float32)
    for k in range(0, depth, 64):
        c = tl.dot(a_desc.load([row, k]), b_desc.load([k, column]), c)
    c_desc.store([row, column], c.to(tl.float16))


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, keys):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    o, row_max = tl.zeros((128, 64), tl.float32), tl.full((128,), -1e30, tl.float32)
    for start in tl.range(0, keys, 64):
        s = tl.dot(q, tl.load(k_ptr + (start + column)[None, :] * 64 + dim[:, None]))
        new_max = tl.maximum(row_max, tl.max(s, 1))
        o = o * tl.exp2(row_max - new_max)[:, None]
        v = tl.load(v_ptr + (start + column)[:, None] * 64 + dim[None, :])
        o = tl.dot(tl.exp2(s - new_max[:, None]).to(tl.float16), v, o)
        row_max = new_max
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def build(form):
    arch, blocks = int(form.split()[0]), 2 if form.endswith("two") else 1
    if "attention" in form:
        signature = {**dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16"), "keys": "i32"}
        source = ASTSource(attention, signature, attrs={(i,): [["tt.divisibility", 16]] for i in range(5)})
    else:
        rows = 128 * blocks
        shapes = {"a_desc": (rows, 64), "b_desc": (64, 128), "c_desc": (rows, 128)}
        boxes = {name: f"tensordesc<fp16[{m},{n}]>" for name, (m, n) in shapes.items()}
        source = ASTSource(product, {**boxes, "depth": "i32", "ROWS": "constexpr"}, {"ROWS": rows})
    options = {"num_warps": 4, "num_stages": 3, "num_ctas": blocks}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        try:
            named = r"\.reqnctapercluster \d|\S*multicast\S*|tcgen05\.mma\S*|barrier\.cluster\S+"
            found = re.findall(named, build(form).asm["ptx"])
            print(form, *sorted(set(found)), flush=True)
        except Exception as error:
            print(form, error, flush=True)
