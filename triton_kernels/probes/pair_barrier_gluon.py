"""Gluon: an arrival at a barrier of both blocks of a cluster. From 3.8 on it reaches the other block."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

FORMS = ("both", "own")


@gluon.jit
def arrive(y_ptr, BOTH: gl.constexpr):
    barrier = mbarrier.allocate_mbarrier(two_ctas=BOTH)
    mbarrier.init(barrier, count=1)
    mbarrier.arrive(barrier, count=1)
    mbarrier.wait(barrier, 0)
    gl.store(y_ptr, 1)


def build(form):
    source = GluonASTSource(arrive, {"y_ptr": "*i32", "BOTH": "constexpr"}, {"BOTH": form == "both"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_ctas": 2})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"mbarrier\.arrive\S+", build(form).asm["ptx"]))
