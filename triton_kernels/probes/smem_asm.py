"""Core Triton: can inline PTX address the compiler's shared memory? No, ptxas rejects the name."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("symbol", "plain")


@triton.jit
def read(x_ptr, y_ptr, FORM: tl.constexpr):
    index = tl.arange(0, 128)
    x = tl.load(x_ptr + index)
    if FORM == "symbol":  # its name in the compiler's own PTX
        asm: tl.constexpr = "{ .reg .b32 a; mov.b32 a, global_smem; ld.shared.b32 $0, [a]; add.u32 $0, $0, $1; }"
        x = tl.inline_asm_elementwise(asm, "=r,r", [x], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y_ptr + index, x)


def build(form):
    source = ASTSource(read, {"x_ptr": "*i32", "y_ptr": "*i32", "FORM": "constexpr"}, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, "compiles", len(build(form).asm["cubin"]))
        except Exception as error:
            print(form, str(error)[:300])
