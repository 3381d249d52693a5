"""Core Triton: exp2, a condition, an order of blocks, 16-byte loads, atomics, print, a sum of products."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("exp2", "exp", "semaphore", "print", "order", "plain", "condition", "unaligned", "shapes")


@triton.jit
def say(x_ptr, y_ptr, counter, tiles, scale, WORD: tl.constexpr):
    index = tl.arange(0, 1024)
    if WORD == "semaphore":  # tiles from a counter, and a wait for a flag
        tile = tl.atomic_add(counter, 1)
        while tile < tiles:
            tl.store(y_ptr + tile * 1024 + index, tl.load(x_ptr + tile * 1024 + index))
            tl.atomic_add(counter + 1, 1, sem="release", scope="gpu")
            tile = tl.atomic_add(counter, 1)
        while tl.atomic_cas(counter + 2, 1, 0, sem="acquire") != 1:
            pass
    elif WORD == "order":  # the heaviest tile first
        tile = tl.num_programs(0) - 1 - tl.program_id(0)
        tl.store(y_ptr + tile * 1024 + index, tl.load(x_ptr + tile * 1024 + index))
    else:
        x = tl.load(x_ptr + index)
        if WORD == "exp2":
            x = tl.exp2(x * scale - 1.0)
        elif WORD == "exp":
            x = tl.exp(x * scale - 1.0)
        elif WORD == "print":
            tl.device_print("x", x)
        elif WORD == "condition":  # noqa: SIM102
            if tl.max(x, 0) > scale:  # one scalar for the whole block
                x = x * scale
        tl.store(y_ptr + index, x)


@triton.jit
def multiply_scalars(x_ptr, y_ptr):
    m, n, k = tl.arange(0, 16)[:, None, None], tl.arange(0, 16)[None, None, :], tl.arange(0, 16)[None, :, None]
    c = tl.sum(tl.load(x_ptr + m * 16 + k) * tl.load(x_ptr + k * 16 + n), 1)
    tl.store(y_ptr + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], c)


def build(form):
    if form == "shapes":
        source = ASTSource(multiply_scalars, {"x_ptr": "*fp32", "y_ptr": "*fp32"})
    else:
        signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "counter": "*i32", "tiles": "i32", "scale": "fp32"}
        attrs = {(i,): [["tt.divisibility", 16]] for i in range(0 if form == "unaligned" else 3)}
        source = ASTSource(say, {**signature, "WORD": "constexpr"}, {"WORD": form}, attrs)
    options = {"num_warps": 4, "enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *sorted(set(re.findall(r"atom\.\S+|vprintf|%nctaid\.x|@%p\d+ bra", kernel.asm["ptx"]))), end=" ")
        print(*sorted(set(re.findall(r"\b(?:FFMA|FMUL|MUFU\.EX2|LDG\.E\.128)\b", kernel.asm["sass"]))))
