"""Core Triton's options: maxnreg limits registers. A launch refuses an unknown one, triton.compile ignores it."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import MockTensor

FORMS = ("plain", "maxnreg", "minctasm", "num_consumer_groups", "asm", "hook",
         "launched", "launched minctasm", "launched num_consumer_groups")  # fmt: skip


@triton.jit
def copy(x_ptr, y_ptr, ASM: tl.constexpr):
    index = tl.arange(0, 1024)
    x = tl.load(x_ptr + index)
    if ASM:
        pragma: tl.constexpr = ".minnctapersm 2; mov.b32 $0, $1;"
        x = tl.inline_asm_elementwise(pragma, "=r,r", [x], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y_ptr + index, x)


def hook(self=None, stages=None, options=None, language=None, capability=None):
    """At least two blocks per SM: adds a line to the kernel's PTX."""
    if stages is not None:
        compile_to_ptx = stages["ptx"]

        def rewritten(source, metadata):
            return compile_to_ptx(source, metadata).replace(".reqntid 128", ".reqntid 128\n.minnctapersm 2")

        stages["ptx"] = rewritten
    return "two blocks", "two blocks"


class NoGpu:
    """What a launch asks a driver for before it compiles: Triton's own driver needs a GPU."""

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)


def launched(option):
    """As copy[1,](x, y, False, num_warps=4, **option) does, but for the launch itself."""
    triton.runtime.driver.set_active(NoGpu())
    x = MockTensor(tl.int32)
    return copy.warmup(x, x, False, grid=(1,), num_warps=4, **option)


def build(form):
    name = form.split()[-1]
    extra = {name: {"maxnreg": 128}.get(name, 2)} if name in ("maxnreg", "minctasm", "num_consumer_groups") else {}
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = hook if form == "hook" else None
    if form.startswith("launched"):
        return launched(extra)
    signature = {"x_ptr": "*i32", "y_ptr": "*i32", "ASM": "constexpr"}
    source = ASTSource(copy, signature, {"ASM": form == "asm"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, **extra})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"\.(?:maxnreg|minnctapersm|reqntid)[^\n]*", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
