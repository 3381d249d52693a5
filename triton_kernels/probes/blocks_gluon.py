"""Gluon's options: maxnreg limits registers. A launch refuses an unknown one, triton.compile ignores it."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.jit import MockTensor

FORMS = ("plain", "maxnreg", "minctasm", "hook", "launched", "launched minctasm")


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


class NoGpu:
    """What a launch asks a driver for before it compiles: Triton's own driver needs a GPU."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


def launched(option):
    """As copy[1,](x, y, num_warps=4, **option) does, but for the launch itself."""
    triton.runtime.driver.set_active(NoGpu())
    x = MockTensor(gl.float32)
    return copy.warmup(x, x, grid=(1,), num_warps=4, **option)


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = two_blocks if form == "hook" else None
    extra = {"maxnreg": {"maxnreg": 128}, "minctasm": {"minctasm": 2}}.get(form.split()[-1], {})
    if form.startswith("launched"):
        return launched(extra)
    source = GluonASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, **extra})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"\.(?:maxnreg|minnctapersm|reqntid)[^\n]*", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
