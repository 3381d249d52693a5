"""TLX: which copies to wait for. A wait takes tokens of groups and a number; stock Triton counts by the tokens."""

import re

import triton
import triton.language as tl
import utlx_plugin as tlx
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("1 token", "0 token", "1", "0")


@triton.jit
def read(k_ptr, v_ptr, o_ptr, LEFT: tl.constexpr, TOKEN: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    smem = tlx.local_alloc((64, 64), tl.float16, 3)
    k_copy = tlx.async_load_commit_group([tlx.async_load(k_ptr + at, smem[0])])
    v_copy = tlx.async_load_commit_group([tlx.async_load(v_ptr + at, smem[1])])
    if TOKEN:
        tlx.async_load_wait_group(LEFT, [k_copy])
    else:
        tlx.async_load_wait_group(LEFT)
    k = tlx.local_load(smem[0])
    # Between two waits: stock Triton makes one of waits that no group parts, and waits for all that they wait for.
    next_copy = tlx.async_load_commit_group([tlx.async_load(k_ptr + 4096 + at, smem[2])])
    tlx.async_load_wait_group(0, [v_copy, next_copy])
    tl.store(o_ptr + at, k + tlx.local_load(smem[1]) + tlx.local_load(smem[2]))


def build(form):
    pointers = dict.fromkeys(("k_ptr", "v_ptr", "o_ptr"), "*fp16")
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    signature = {**pointers, "LEFT": "constexpr", "TOKEN": "constexpr"}
    source = ASTSource(read, signature, {"LEFT": int(form[0]), "TOKEN": "token" in form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"cp\.async\.wait_group\s+\w+", build(form).asm["ptx"]))
