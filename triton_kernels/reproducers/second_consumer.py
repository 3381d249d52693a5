"""Triton 3.6 to 3.9: in a warp-specialized loop the second consumer adds the 64 rows before it twice.

    python second_consumer.py      # needs no GPU

The compiler gives rows 64 to 127 of the tile to a second consumer. It adds 64 to `first`, which is a coordinate of the
store, and lets the consumer's range begin at 64 too. So `row`, made from both, begins at first + 128: the consumer
writes the row maxima of the next tile.
"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a_ptr, b_ptr, c_ptr, max_ptr, depth):
    a_desc = tl.make_tensor_descriptor(a_ptr, [4096, depth], [depth, 1], [128, 64])
    b_desc = tl.make_tensor_descriptor(b_ptr, [depth, 128], [128, 1], [64, 128])
    c_desc = tl.make_tensor_descriptor(c_ptr, [4096, 128], [128, 1], [128, 128])
    first = tl.program_id(0) * 128
    row = first + tl.arange(0, 128)
    c = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, depth, 64, warp_specialize=True):
        c = tl.dot(a_desc.load([first, k]), b_desc.load([k, 0]), c)
    c_desc.store([first, 0], c.to(tl.float16))
    tl.store(max_ptr + row, tl.max(c, 1))


def build():
    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16"), "max_ptr": "*fp32", "depth": "i32"}
    source = ASTSource(product, signature, {}, {(i,): [["tt.divisibility", 16]] for i in range(5)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    second = build().asm["ttgir"].partition("partition1(")[2]
    print(f"Triton {triton.__version__}, the second consumer:")
    begins = re.search(r"make_range .*start = 64 : i32\} .*\n.*= tt\.splat (%\w+) ", second)
    added = begins and re.search(rf"{begins[1]} = arith\.addi %first\w*, %c64_i32", second)
    for found in filter(None, (added, begins)):
        print(*(re.sub(r"async_task_id = .*?>,? ?", "", line.strip()) for line in found[0].splitlines()), sep="\n")
    print("WRONG: its rows begin at first + 64, and its range at 64 too" if added else "right: 64 is added once")
