"""Core Triton: when does a loop over tiles wait for the TMA store of O? After the store, or before the next one."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("one stage", "two stages")


@triton.jit
def products(a_desc, b_desc, c_desc, tiles, steps, STAGES: tl.constexpr):
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=STAGES):
        c = tl.zeros((64, 64), tl.float32)
        for step in tl.range(0, steps):
            c = tl.dot(a_desc.load([tile * 64, step * 64]), b_desc.load([step * 64, 0]), c)
        c_desc.store([tile * 64, 0], c.to(tl.float16))


def build(form):
    descriptors = dict.fromkeys(("a_desc", "b_desc", "c_desc"), "tensordesc<fp16[64,64]>")
    signature = {**descriptors, "tiles": "i32", "steps": "i32", "STAGES": "constexpr"}
    source = ASTSource(products, signature, {"STAGES": FORMS.index(form) + 1})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        order = r"scf\.(?:for|yield)|async_tma_copy_local_to_global|async_tma_store_wait|tt\.return"
        print(form, *re.findall(order, build(form).asm["ttgir"]))
