"""TLX: a TMA load into both blocks of a cluster is an argument, but with two blocks the compiler fails."""

import re

import triton
import triton.language as tl
import utlx_plugin as tlx
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("one block", "two blocks")


@triton.jit
def load(x_desc, y_ptr):
    smem = tlx.local_alloc((64, 64), tl.float16, 1)
    full = tlx.alloc_barriers(num_barriers=1, arrive_count=1)
    tlx.barrier_expect_bytes(full[0], 64 * 64 * 2)
    tlx.async_descriptor_load(x_desc, smem[0], [0, 0], full[0], multicast_targets=[0, 1])
    tlx.barrier_wait(full[0], 0)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y_ptr + at, tlx.local_load(smem[0]))


def build(form):
    source = ASTSource(load, {"x_desc": "tensordesc<fp16[64,64]>", "y_ptr": "*fp16"})
    options = {"num_warps": 4, "num_ctas": 1 if form == "one block" else 2}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"cp\.async\.bulk\.tensor\S+", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
