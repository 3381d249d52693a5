"""Core Triton: a TMA load into both blocks of a cluster. A hook on the compiler's stages marks it in the TTGIR."""

import re
import tempfile

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "hook")


@triton.jit
def product(a_desc, b_desc, c_desc, depth):
    row, column = tl.program_id(0) * 256, tl.program_id(1) * 128
    c = tl.zeros((256, 128), tl.float32)
    for k in range(0, depth, 64):  # each of two blocks needs half of the rows of A, and all of B
        c = tl.dot(a_desc.load([row, k]), b_desc.load([k, column]), c)
    c_desc.store([row, column], c.to(tl.float16))


def edited(ttgir):
    """A file with the same module, in which loads of B go to both blocks."""
    text = re.sub(r"(async_tma_copy_global_to_local %b_desc[^:]*?) :", r"\1 {multicast} :", str(ttgir))
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir", delete=False) as file:
        file.write(text)
    return file.name


def stages_hook(self=None, stages=None, options=None, language=None, capability=None):
    if stages is not None:
        compile_to_ttgir = stages["ttgir"]

        def rewritten(source, metadata):
            module = compile_to_ttgir(source, metadata)
            parsed = ir.parse_mlir_module(edited(module), module.context)
            parsed.context = module.context
            return parsed

        stages["ttgir"] = rewritten
    return "multicast", "multicast"  # parts of the cache's key


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = stages_hook if form == "hook" else None
    shapes = {"a_desc": (256, 64), "b_desc": (64, 128), "c_desc": (256, 128)}
    boxes = {name: f"tensordesc<fp16[{m},{n}]>" for name, (m, n) in shapes.items()}
    source = ASTSource(product, {**boxes, "depth": "i32"})
    options = {"num_warps": 4, "num_stages": 3, "num_ctas": 2}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"cp\.async\.bulk\.tensor\S*", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, error, flush=True)
