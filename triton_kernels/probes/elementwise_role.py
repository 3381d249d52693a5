"""Core Triton: an if in tl.map_elementwise over an index gives some warps code of their own. A load may be in it."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "exponentials", "load", "store", "product")


@triton.jit
def exponentials(x, address, index):
    if index < 128:
        for _ in tl.static_range(16):
            x = tl.exp2(x)
    return x


@triton.jit
def load(x, address, index):
    if index < 128:
        x += tl.load(address.to(tl.pointer_type(tl.float32), bitcast=True))
    return x


@triton.jit
def store(x, address, index):
    if index < 128:
        tl.store(address.to(tl.pointer_type(tl.float32), bitcast=True), x)
    return x


@triton.jit
def product(x, address, index):
    if index < 128:
        tile = tl.full((16, 16), 1.0, tl.float16) * x.to(tl.float16)
        x = tl.sum(tl.sum(tl.dot(tile, tile), 0), 0)
    return x


@triton.jit
def some_warps(x_ptr, y_ptr, FORM: tl.constexpr):
    index = tl.arange(0, 256)  # one element for each thread of eight warps
    x, address = tl.load(x_ptr + index), (x_ptr + index).to(tl.int64)
    if FORM == "exponentials":
        x = tl.map_elementwise(exponentials, x, address, index)
    elif FORM == "load":
        x = tl.map_elementwise(load, x, address, index)
    elif FORM == "store":
        x = tl.map_elementwise(store, x, address, index)
    elif FORM == "product":
        x = tl.map_elementwise(product, x, address, index)
    tl.store(y_ptr + index, x)


def build(form):
    source = ASTSource(some_warps, {"x_ptr": "*fp32", "y_ptr": "*fp32", "FORM": "constexpr"}, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})


if __name__ == "__main__":
    for form in FORMS:
        try:
            kernel = build(form)
        except Exception as error:
            print(form, error, flush=True)
            continue
        branches = re.findall(r"\bBSSY\b.*?\bBSYNC\b", kernel.asm["sass"], re.DOTALL)
        print(form, *(line for branch in branches for line in re.findall(r"MUFU\.EX2", branch)), end=" ")
        print(*re.findall(r"@%p\d+ bra\b|bar\.sync|ld\.global|mma\.sync|\$L\S+:", kernel.asm["ptx"]), flush=True)
