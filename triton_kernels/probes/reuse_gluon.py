"""Gluon: two tiles in the same bytes of shared memory. A call reinterprets one as the other."""

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("reuse", "apart")
RENAMED = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))  # in 3.9


@gluon.jit
def twice(x_ptr, y_ptr, REUSE: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    at = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None] * 64 + gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    first = gl.allocate_shared_memory(gl.float16, [64, 64], shared)
    if REUSE and RENAMED:
        second = first.reinterpret(gl.int16, [64, 64], shared)
    elif REUSE:
        second = first._reinterpret(gl.int16, [64, 64], shared)
    else:
        second = gl.allocate_shared_memory(gl.int16, [64, 64], shared)
    first.store(gl.load(x_ptr + at))
    x = first.load(rows)
    second.store(x.to(gl.int16))
    gl.store(y_ptr + at, second.load(rows))
    first.store(x)
    gl.store(x_ptr + at, first.load(rows) + second.load(rows))


def build(form):
    signature = {"x_ptr": "*fp16", "y_ptr": "*i16", "REUSE": "constexpr"}
    source = GluonASTSource(twice, signature, {"REUSE": form == "reuse"})
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, "shared", build(form).metadata.shared)
