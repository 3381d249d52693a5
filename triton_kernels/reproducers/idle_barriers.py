"""Triton 3.6 and 3.7: mbarriers of a warp-specialized loop lie in the memory of a tile, and none is invalidated.

    python idle_barriers.py        # needs no GPU

PTX asks for mbarrier.inval before the memory of a barrier holds anything else. From Triton 3.8 on every barrier that
the compiler makes for the roles has memory of its own, and is invalidated.
"""

import os
import re
import subprocess
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a_ptr, b_ptr, c_ptr, depth):
    a_desc = tl.make_tensor_descriptor(a_ptr, [4096, depth], [depth, 1], [128, 64])
    b_desc = tl.make_tensor_descriptor(b_ptr, [depth, 128], [128, 1], [64, 128])
    c_desc = tl.make_tensor_descriptor(c_ptr, [4096, 128], [128, 1], [128, 128])
    first = tl.program_id(0) * 128
    c = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, depth, 64, warp_specialize=True):
        c = tl.dot(a_desc.load([first, k]), b_desc.load([k, 0]), c)
    c_desc.store([first, 0], c.to(tl.float16))


def build():
    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16"), "depth": "i32"}
    source = ASTSource(product, signature, {}, {(i,): [["tt.divisibility", 16]] for i in range(4)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 3})


if __name__ == "__main__":
    if "--compile" in sys.argv:
        ptx = build().asm["ptx"]
        print(*(f"{ptx.count(f'mbarrier.{what}')} mbarrier.{what}" for what in ("init", "inval")), sep=", ")
    else:  # the compiler prints its IR after each pass, which says where each buffer lies
        dump = {**os.environ, "MLIR_ENABLE_DUMP": "1", "TRITON_ALWAYS_COMPILE": "1"}
        done = subprocess.run([sys.executable, __file__, "--compile"], env=dump, capture_output=True, text=True)
        print(f"Triton {triton.__version__}: {done.stdout.strip()}")
        allocated = r"local_alloc \{allocation\.offset = (\d+)[^}]*\} : \(\) -> !ttg\.memdesc<(\w+)"
        buffers = {(int(offset), kind) for offset, kind in re.findall(allocated, done.stderr)}
        barriers = {offset for offset, kind in buffers if kind.endswith("xi64")}
        tiles = {offset: kind for offset, kind in buffers if not kind.endswith("xi64")}
        for offset in sorted(barriers & set(tiles)):
            print(f"WRONG: mbarriers lie at byte {offset} of shared memory, where the tiles {tiles[offset]} begin")
        print(f"{len(barriers & set(tiles))} of {len(tiles)} buffers of tiles begin where mbarriers lie")
