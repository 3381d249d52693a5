"""TLX: a task of one warp that only adds a tile to global memory in bulk, and how long it waits for that."""

import re

import triton
import triton.language as tl
import utlx_plugin as tlx
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("read", "written", "no tasks")


@triton.jit
def tile_of(x_ptr, tile):
    x = tl.load(x_ptr + tile * 4096 + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :])
    return x * x


@triton.jit
def add(x_ptr, sums_desc, tiles, FORM: tl.constexpr):
    x = tlx.local_alloc((64, 64), tl.float32, 1)
    if FORM == "no tasks":
        for tile in tl.range(0, tiles, num_stages=1):
            tlx.local_store(x[0], tile_of(x_ptr, tile))
            tlx.fence_async_shared()
            tlx.async_descriptor_store(sums_desc, x[0], [tile * 64, 0])
            tlx.async_descriptor_store_wait(0)
    else:
        full, empty = tlx.alloc_barriers(num_barriers=1, arrive_count=1), tlx.alloc_barriers(num_barriers=1)
        with tlx.async_tasks():
            with tlx.async_task("default"):
                for tile in tl.range(0, tiles, num_stages=1):
                    tlx.barrier_wait(empty[0], (tile & 1) ^ 1)
                    tlx.local_store(x[0], tile_of(x_ptr, tile))
                    tlx.fence_async_shared()
                    tlx.barrier_arrive(full[0], 1)
            with tlx.async_task(num_warps=1, registers=24):
                for tile in tl.range(0, tiles, num_stages=1):
                    tlx.barrier_wait(full[0], tile & 1)
                    tlx.async_descriptor_store(sums_desc, x[0], [tile * 64, 0], store_reduce="add")
                    tlx.async_descriptor_store_wait(0, read_only=FORM == "read")
                    tlx.barrier_arrive(empty[0], 1)


def build(form):
    signature = {"x_ptr": "*fp32", "sums_desc": "tensordesc<fp32[64,64]>", "tiles": "i32", "FORM": "constexpr"}
    source = ASTSource(add, signature, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        order = r"cp\.reduce\S+|cp\.async\.bulk\.wait_group\S*\s+\d|setmaxnreg\S+\s+\d+"
        print(form, "warps", kernel.metadata.num_warps, *re.findall(order, kernel.asm["ptx"]))
        print(*re.findall(r"partition\d?\(.*num_warps\(\d\)", kernel.asm["ttgir"]))
