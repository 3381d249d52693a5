"""Core Triton: setmaxnreg by inline PTX. It reaches the machine code only if the option maxnreg is set."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("asm", "asm maxnreg")
ASM = tl.constexpr("""{ .reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.lt.u32 p, t, 128;
@p setmaxnreg.inc.sync.aligned.u32 232; @!p setmaxnreg.dec.sync.aligned.u32 40; mov.b32 $0, $1; }""")


@triton.jit
def copy(x_ptr, y_ptr):
    index = tl.arange(0, 256)
    x = tl.load(x_ptr + index)
    x = tl.inline_asm_elementwise(ASM, "=r,r", [x], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y_ptr + index, x)


def build(form):
    source = ASTSource(copy, {"x_ptr": "*i32", "y_ptr": "*i32"})
    options = {"num_warps": 8, **({"maxnreg": 168} if "maxnreg" in form else {})}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *re.findall(r"setmaxnreg\S+ \d+|\.maxnreg \d+", kernel.asm["ptx"]), end=" | ")
        print(*re.findall(r"USETMAXREG\S*", kernel.asm["sass"]))
