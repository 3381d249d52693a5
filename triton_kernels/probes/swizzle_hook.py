"""Core Triton: a hook on the compiler's stages removes the swizzle. It rewrites the kernel's TTGIR."""

import re
import tempfile

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "hook", "ir_override", "hook padded", "hook padded cp_async")


@triton.jit
def product(a_ptr, b_ptr, c_ptr, steps):
    m, n = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    c = tl.zeros((64, 64), tl.float32)
    for step in tl.range(0, steps):
        c = tl.dot(tl.load(a_ptr + step * 4096 + m * 64 + n), tl.load(b_ptr + step * 4096 + m * 64 + n), c)
    tl.store(c_ptr + m * 64 + n, c)


def edited(ttgir, padded):
    """A file with the same module without swizzle: one phase instead of eight, or rows 16 bytes further apart."""
    text = re.sub(r"(maxPhase = )\d+", r"\g<1>1", str(ttgir))
    if padded:
        text = re.sub(
            r"swizzled_shared<\{.*?(order = \[.*?\])\}>", r"padded_shared<[64:+8] {\1, shape = [64, 64]}>", text
        )
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir", delete=False) as file:
        file.write(text)
    return file.name


def hook(padded):
    def stages_hook(self=None, stages=None, options=None, language=None, capability=None):
        if stages is not None:
            compile_to_ttgir = stages["ttgir"]

            def rewritten(source, metadata):
                module = compile_to_ttgir(source, metadata)
                parsed = ir.parse_mlir_module(edited(module, padded), module.context)
                parsed.context = module.context
                return parsed

            stages["ttgir"] = rewritten
        return f"padded {padded}", f"padded {padded}"  # parts of the cache's key

    return stages_hook


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    padded = "padded" in form
    triton.knobs.runtime.add_stages_inspection_hook = hook(padded) if "hook" in form else None
    pointers = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "steps": "i32"}
    source = ASTSource(product, pointers, attrs={(i,): [["tt.divisibility", 16]] for i in range(3)})
    options = {"num_warps": 4, "num_stages": 3 if "cp_async" in form else 1}
    if form == "ir_override":
        options["ir_override"] = edited(build("plain").asm["ttgir"], padded)
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        try:
            kernel = build(form)
        except Exception as error:
            print(form, error)
            continue
        layouts = re.findall(r"swizzled_shared<[^>]*maxPhase = \d+|padded_shared<", kernel.asm["ttgir"])
        print(form, *layouts, *sorted(set(re.findall(r"LDSM\S*", kernel.asm["sass"]))), flush=True)
