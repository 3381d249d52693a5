"""Gluon: tiles from an atomic counter, a flag that is released and waited for, and print."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("semaphore", "print", "plain")


@gluon.jit
def say(x_ptr, y_ptr, counter, WORD: gl.constexpr):
    index = gl.arange(0, 1024, gl.BlockedLayout([4], [32], [4], [0]))
    x = gl.load(x_ptr + index)
    if WORD == "print":
        gl.device_print("x", x)
    gl.store(y_ptr + index, x)
    if WORD == "semaphore":
        gl.atomic_add(counter, 1, sem="release", scope="gpu")
        while gl.atomic_cas(counter + 1, 1, 0, sem="acquire", scope="gpu") != 1:
            pass


def build(form):
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "counter": "*i32", "WORD": "constexpr"}
    source = GluonASTSource(say, signature, {"WORD": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *sorted(set(re.findall(r"\b(?:atom|red)\.\S+|vprintf", build(form).asm["ptx"]))))
