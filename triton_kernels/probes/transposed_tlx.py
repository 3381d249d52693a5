"""TLX: local_trans makes another view of a buffer. wgmma reads A with m and B with n contiguous where they lie."""

import re

import triton
import triton.language as tl
import utlx_plugin as tlx
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("m and n contiguous", "k contiguous")


@triton.jit
def product(a_ptr, b_ptr, c_ptr, TRANSPOSED: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(a[0], tl.load(a_ptr + at))
    tlx.local_store(b[0], tl.load(b_ptr + at))
    tlx.fence_async_shared()
    c = tlx.async_dot(tlx.local_trans(a[0]), b[0]) if TRANSPOSED else tlx.async_dot(a[0], tlx.local_trans(b[0]))
    tl.store(c_ptr + at, tlx.async_dot_wait(0, c))


def build(form):
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "TRANSPOSED": "constexpr"}
    source = ASTSource(product, signature, {"TRANSPOSED": form == FORMS[0]})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"HGMMA\S* R\d+, gdesc\[\w+\]\S*", build(form).asm["sass"]))
