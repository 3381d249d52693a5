"""Core Triton: when does a loop over tiles wait for the TMA store of O? After the store, or before the next one."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("one stage", "two stages", "counter", "while")


@triton.jit
def product(a_desc, b_desc, c_desc, tile, steps):
    c = tl.zeros((64, 64), tl.float32)
    for step in tl.range(0, steps):
        c = tl.dot(a_desc.load([tile * 64, step * 64]), b_desc.load([step * 64, 0]), c)
    c_desc.store([tile * 64, 0], c.to(tl.float16))


@triton.jit
def products(a_desc, b_desc, c_desc, counter, tiles, steps, FORM: tl.constexpr):
    tile = tl.program_id(0)
    if FORM == "while":
        while tile < tiles:
            product(a_desc, b_desc, c_desc, tile, steps)
            tile = tl.atomic_add(counter, 1, sem="relaxed")
    elif FORM == "counter":  # the turns are bounded; a tile that is not there has no steps, and its store is dropped
        for _ in tl.range(0, tiles, num_stages=2):
            tile = tl.atomic_add(counter, 1, sem="relaxed")
            product(a_desc, b_desc, c_desc, tile, tl.where(tile < tiles, steps, 0))
    else:
        for each in tl.range(tile, tiles, tl.num_programs(0), num_stages=1 if FORM == "one stage" else 2):
            product(a_desc, b_desc, c_desc, each, steps)


def build(form):
    descriptors = dict.fromkeys(("a_desc", "b_desc", "c_desc"), "tensordesc<fp16[64,64]>")
    signature = {**descriptors, "counter": "*i32", "tiles": "i32", "steps": "i32", "FORM": "constexpr"}
    source = ASTSource(products, signature, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        order = r"scf\.(?:for|while|yield)|atomic_rmw|async_tma_copy_local_to_global|async_tma_store_wait|tt\.return"
        print(form, *re.findall(order, build(form).asm["ttgir"]))
