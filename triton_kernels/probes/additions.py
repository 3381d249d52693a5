"""Core Triton: additions to a tile of global memory, by atomic operations or a bulk copy, in an order or in none."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("atomic", "strided", "ordered", "bulk", "ordered bulk")


@triton.jit
def add(x_ptr, sums_ptr, turn_ptr, tiles, FORM: tl.constexpr):
    """Block after block adds its x to each tile, in the order of their numbers where FORM says so: `turn_ptr` has the
    number of the block whose turn it is, for each tile."""
    block, row, column = tl.program_id(0), tl.arange(0, 64)[:, None], tl.arange(0, 64)
    sums_desc = tl.make_tensor_descriptor(sums_ptr, [tiles * 64, 64], [64, 1], [64, 64])
    for tile in tl.range(0, tiles, num_stages=1):
        x = tl.load(x_ptr + (block * tiles + tile) * 4096 + row * 64 + column)
        if FORM == "ordered" or FORM == "ordered bulk":
            while tl.atomic_add(turn_ptr + tile, 0, sem="acquire") != block:
                pass
        if FORM == "bulk" or FORM == "ordered bulk":
            sums_desc.atomic_add([tile * 64, 0], x)
        elif FORM == "strided":
            tl.atomic_add(sums_ptr + tile * 8192 + row * 128 + column * 2, x, sem="relaxed")
        else:
            tl.atomic_add(sums_ptr + tile * 4096 + row * 64 + column, x, sem="relaxed")
        if FORM == "ordered" or FORM == "ordered bulk":
            tl.debug_barrier()
            tl.atomic_xchg(turn_ptr + tile, block + 1, sem="release")


def build(form):
    signature = {"x_ptr": "*fp32", "sums_ptr": "*fp32", "turn_ptr": "*i32", "tiles": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    source = ASTSource(add, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        order = r"\b(?:atom|red)\.\S+|ld\.\S*acquire\S*|cp\.reduce\S+|cp\.async\.bulk\.wait_group\S*\s+\d|bar\.sync\s+0"
        print(form, *re.findall(order, build(form).asm["ptx"]))
