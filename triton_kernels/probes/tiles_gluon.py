"""Gluon: blocks that take tiles from a counter, row maxima as integers, and a TMA store."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

FORMS = ("plain", "counter", "floats", "integers", "tma_store")
store_async = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global  # renamed in 3.8


@gluon.jit
def say(desc, x_ptr, y_ptr, counter_ptr, tiles, WORD: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 16], [8, 4], [4, 1], [1, 0])
    row = gl.arange(0, 64, gl.SliceLayout(1, layout))
    index = row[:, None] * 64 + gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    tile = gl.program_id(0)
    if WORD == "counter":  # a block takes tile after tile
        while tile < tiles:
            gl.store(y_ptr + tile * 4096 + index, gl.load(x_ptr + tile * 4096 + index))
            tile = gl.atomic_add(counter_ptr, 1)
    else:
        x = gl.load(x_ptr + index)
        if WORD == "integers":  # nonnegative floats are ordered like their bits
            gl.store(y_ptr + row, gl.max(x.to(gl.int32, bitcast=True), 1).to(gl.float32, bitcast=True))
        elif WORD == "floats":
            gl.store(y_ptr + row, gl.max(x, 1))
        elif WORD == "tma_store":
            smem = gl.allocate_shared_memory(gl.float16, [64, 64], desc.layout, x.to(gl.float16))
            fence_async_shared()
            store_async(desc, [0, 0], smem)
            tma.store_wait(0)
        else:
            gl.store(y_ptr + index, x)


def build(form):
    box = f"tensordesc<fp16[64,64],{gl.NVMMASharedLayout(128, 16, 2)!r}>"
    signature = {"desc": box, "x_ptr": "*fp32", "y_ptr": "*fp32", "counter_ptr": "*i32", "tiles": "i32"}
    source = GluonASTSource(say, {**signature, "WORD": "constexpr"}, {"WORD": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        print(form, *sorted(set(re.findall(r"\batom\.\S*add\S*", kernel.asm["ptx"]))), end=" ")
        print(*sorted(set(re.findall(r"\b(?:VIMNMX3|FMNMX|UTMASTG)\b[.\w]*", kernel.asm["sass"]))))
