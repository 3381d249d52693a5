"""Gluon: maxnreg limits the registers. No option sets a minimum of blocks per SM; a hook adds it to the PTX."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("plain", "maxnreg", "minctasm", "hook")


@gluon.jit
def copy(x_ptr, y_ptr):
    index = gl.arange(0, 1024, gl.BlockedLayout([4], [32], [4], [0]))
    gl.store(y_ptr + index, gl.load(x_ptr + index))


def two_blocks(self=None, stages=None, options=None, language=None, capability=None):
    if stages is not None:
        compile_to_ptx = stages["ptx"]

        def rewritten(source, metadata):
            return compile_to_ptx(source, metadata).replace(".reqntid 128", ".reqntid 128\n.minnctapersm 2")

        stages["ptx"] = rewritten
    return "two blocks", "two blocks"  # parts of the cache's key


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = two_blocks if form == "hook" else None
    extra = {"maxnreg": {"maxnreg": 128}, "minctasm": {"minctasm": 2}}.get(form, {})
    source = GluonASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, **extra})


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"\.(?:maxnreg|minnctapersm|reqntid)[^\n]*", build(form).asm["ptx"]))
