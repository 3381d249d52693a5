"""Gluon: a load by pointers takes an eviction policy, as in core Triton."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("pointer", "plain")


@gluon.jit
def copy(x_ptr, y_ptr, POLICY: gl.constexpr):
    index = gl.arange(0, 1024, gl.BlockedLayout([8], [32], [4], [0]))
    gl.store(y_ptr + index, gl.load(x_ptr + index, eviction_policy=POLICY))


def build(form):
    policy = {"POLICY": "" if form == "plain" else "evict_last"}
    source = GluonASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32", "POLICY": "constexpr"}, policy)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"createpolicy\S*|L2::cache_hint", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
