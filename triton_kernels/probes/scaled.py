"""Core Triton: a product of 8-bit floats with a scale for every 32 of them. sm_90 has no instruction for it."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("120 scaled", "120 plain", "100 scaled", "90 scaled")


@triton.jit
def product(a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, c_ptr, SCALED: tl.constexpr):
    m, n, k, group = tl.arange(0, 128), tl.arange(0, 128), tl.arange(0, 128), tl.arange(0, 4)
    a, b = tl.load(a_ptr + m[:, None] * 128 + k[None, :]), tl.load(b_ptr + n[None, :] * 128 + k[:, None])
    if SCALED:
        a_scale = tl.load(a_scale_ptr + m[:, None] * 4 + group[None, :])
        b_scale = tl.load(b_scale_ptr + n[:, None] * 4 + group[None, :])
        c = tl.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3")
    else:
        c = tl.dot(a, b)
    tl.store(c_ptr + m[:, None] * 128 + n[None, :], c)


def build(form):
    arch, way = form.split()
    tensors = {"a_ptr": "*fp8e4nv", "b_ptr": "*fp8e4nv", "a_scale_ptr": "*u8", "b_scale_ptr": "*u8", "c_ptr": "*fp32"}
    source = ASTSource(product, {**tensors, "SCALED": "constexpr"}, {"SCALED": way == "scaled"})
    return triton.compile(source, target=GPUTarget("cuda", int(arch), 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            found = re.findall(r"(?:wg|tcgen05\.|\b)mma\.\S*(?:block_scale|sync)\S*", build(form).asm["ptx"])
            print(form, *sorted(set(found)), flush=True)
        except Exception as error:
            print(form, str(error)[:300], flush=True)
