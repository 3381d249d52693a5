"""Core Triton: inline PTX can issue wmma, but PTX does not define which lane holds which element."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("wmma", "plain")
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {$0, $1, $2, $3}, " + ", ".join(
    ["{$4, $4, $4, $4, $4, $4, $4, $4}", "{$5, $5, $5, $5, $5, $5, $5, $5}", "{$4, $5, $4, $5};"]
)


@triton.jit
def multiply(x_ptr, y_ptr, ASM: tl.constexpr):
    index = tl.arange(0, 128)
    x = tl.load(x_ptr + index)
    if ASM != "":
        x, y, z, w = tl.inline_asm_elementwise(
            ASM,
            "=r,=r,=r,=r,r,r",
            [x, x],
            dtype=(tl.int32, tl.int32, tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )
        x += y + z + w
    tl.store(y_ptr + index, x)


def build(form):
    asm = WMMA if form == "wmma" else ""
    source = ASTSource(multiply, {"x_ptr": "*i32", "y_ptr": "*i32", "ASM": "constexpr"}, {"ASM": asm})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"wmma\.mma\S*", build(form).asm["ptx"]))
