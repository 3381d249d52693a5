"""Core Triton: an attribute of the IR, set by a builtin of one's own, gives each load its number of buffers."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language import core

FORMS = ("plain", "attribute")


@core.builtin
def early(x, iterations, _semantic=None):
    """Asks the pipeliner to load x so many iterations before its use."""
    x.handle.set_attr("tt.latency", _semantic.builder.get_int32_attr(iterations.value))
    return x


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, steps, OWN: tl.constexpr):
    row, column, dim = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    q, o = tl.load(q_ptr + row[:, None] * 64 + dim), tl.zeros((64, 64), tl.float32)
    for step in tl.range(0, steps):
        k = tl.load(k_ptr + step * 4096 + column[None, :] * 64 + dim[:, None])
        v = tl.load(v_ptr + step * 4096 + column[:, None] * 64 + dim[None, :])
        if OWN:
            k, v = early(k, tl.constexpr(2)), early(v, tl.constexpr(1))
        o = tl.dot(tl.exp2(tl.dot(q, k)).to(tl.float16), v, o)
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def build(form):
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "steps": "i32", "OWN": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(attend, signature, {"OWN": form == "attribute"}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        seen = r"local_alloc : \(\) -> !ttg.memdesc<\w+|async_copy_global_to_local %\w"
        print(form, *re.findall(seen, build(form).asm["ttgir"]))
