"""Core Triton: one TMA load of rows that an index tensor names (gather4), on sm_100; sm_90 has none."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("100 gather", "100 load", "90 gather")


@triton.jit
def rows(x_ptr, index_ptr, y_ptr, count, GATHER: tl.constexpr):
    row, column = tl.arange(0, 32), tl.arange(0, 64)
    if GATHER:
        x_desc = tl.make_tensor_descriptor(x_ptr, [count, 64], [64, 1], [1, 64])
        x = x_desc.gather(tl.load(index_ptr + row), 0)
    else:
        x_desc = tl.make_tensor_descriptor(x_ptr, [count, 64], [64, 1], [32, 64])
        x = x_desc.load([0, 0])
    tl.store(y_ptr + row[:, None] * 64 + column[None, :], x)


def build(form):
    arch, way = form.split()
    signature = {"x_ptr": "*fp16", "index_ptr": "*i32", "y_ptr": "*fp16", "count": "i32", "GATHER": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(rows, signature, {"GATHER": way == "gather"}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", int(arch), 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *sorted(set(re.findall(r"cp\.async\.bulk\.tensor\S*", build(form).asm["ptx"]))), flush=True)
        except Exception as error:
            print(form, str(error)[:300], flush=True)
