"""Core Triton: how does O reach global memory? Pointers pass through shared memory; a descriptor uses a TMA store."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("pointers", "scattered", "unaligned", "descriptor", "tma_reduce")


@triton.jit
def product(a_ptr, b_ptr, c, stride, HOW: tl.constexpr):
    m, n = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    tile = tl.dot(tl.load(a_ptr + m * 64 + n), tl.load(b_ptr + m * 64 + n)).to(tl.float16)
    if HOW == "descriptor":
        c.store([0, 0], tile)
    elif HOW == "tma_reduce":
        c.atomic_add([0, 0], tile)
    elif HOW == "scattered":
        tl.store(c + m * stride + n * tl.where(stride > 0, 1, 2), tile)
    else:
        tl.store(c + m * stride + n, tile)


def build(form):
    boxed = form in ("descriptor", "tma_reduce")
    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c": "tensordesc<fp16[64,64]>" if boxed else "*fp16"}
    known = 2 if boxed or form == "unaligned" else 4
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(known)}
    source = ASTSource(product, {**signature, "stride": "i32", "HOW": "constexpr"}, {"HOW": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        behind = kernel.asm["sass"].rpartition("HGMMA")[2]
        print(form, *sorted(set(re.findall(r"\b(?:STS|STSM|LDS|STG|UTMASTG|UTMAREDG)\b[.\w]*", behind))), end=" ")
        print(*sorted(set(re.findall(r"cp\.reduce\S*", kernel.asm["ptx"]))))
