"""TLX: layouts of a tile. Padding and any XOR are obeyed; a swizzle by three numbers is accepted and ignored."""

import re

import triton
import triton.language as tl
import utlx_plugin as tlx
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

COLUMNS = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]]
LAYOUTS = {
    "padded": lambda: tlx.padded_shared_layout_encoding.with_identity_for([[64, 8]], [64, 64], [1, 0]),
    "plain": lambda: tlx.shared_linear_layout_encoding([*COLUMNS, *([row, 0] for row in (1, 2, 4, 8, 16, 32))]),
    "xor": lambda: tlx.shared_linear_layout_encoding([*COLUMNS, [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]]),
    "none asked": lambda: tlx.swizzled_layout(0, 0, 0),
    "swizzle asked": lambda: tlx.swizzled_layout(3, 3, 3),
}
FORMS = tuple(LAYOUTS)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, LAYOUT: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    a = tlx.local_alloc((64, 64), tl.float16, 1, layout=LAYOUT)
    b = tlx.local_alloc((64, 64), tl.float16, 1, layout=LAYOUT)
    tlx.local_store(a[0], tl.load(a_ptr + at))
    tlx.local_store(b[0], tl.load(b_ptr + at))
    tl.store(c_ptr + at, tl.dot(tlx.local_load(a[0]), tlx.local_load(b[0])))


def build(form):
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "LAYOUT": "constexpr"}
    source = ASTSource(product, signature, {"LAYOUT": LAYOUTS[form]()})
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        layouts = re.findall(r"(?:padded_shared|shared_linear|nvmma_shared)<[^>]*>", kernel.asm["ttgir"])
        print(form, *layouts, *sorted(set(re.findall(r"\b(?:LDSM|LDS)[.\w]*", kernel.asm["sass"]))))
