"""Core Triton: is O rescaled between issuing Q K^T and issuing P V? Three ways to ask for it, and a hook."""

import re
import tempfile

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("written", "rotated", "asm", "hook")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    q = tl.load(q_ptr + row[:, None] * 64 + dim)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    o, row_max = tl.zeros((128, 64), tl.float32), tl.full((128,), -1e30, tl.float32)
    s = tl.dot(q, tl.load(k_ptr + k_at))
    new_max = tl.max(s, 1)
    p, rescale, row_max = tl.exp2(s - new_max[:, None]).to(tl.float16), tl.exp2(row_max - new_max), new_max
    for start in tl.range(0, keys, 64):
        s = tl.dot(q, tl.load(k_ptr + (start + 64) * 64 + k_at))
        if FORM == "asm":  # a statement that the compiler does not move away from the product before it
            rescale = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [rescale], tl.float32, False, 1)
        o = o * rescale[:, None]
        v = tl.load(v_ptr + start * 64 + v_at)
        if FORM == "rotated":  # P V is a product of its own, which is added to O
            o += tl.dot(p, v)
        else:
            o = tl.dot(p, v, o)
        new_max = tl.maximum(row_max, tl.max(s, 1))
        p, rescale, row_max = tl.exp2(s - new_max[:, None]).to(tl.float16), tl.exp2(row_max - new_max), new_max
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def edited(ttgir):
    """A file with the same module, in which the loop waits for Q K^T after it issues P V, which stays in flight."""
    lines = str(ttgir).splitlines()
    loop = next(i for i, line in enumerate(lines) if "scf.for" in line)
    wait = next(i for i, line in enumerate(lines) if i > loop and "warp_group_dot_wait" in line)
    product = next(i for i, line in enumerate(lines) if i > wait and "warp_group_dot " in line)
    lines.insert(product, lines.pop(wait).replace("pendings = 0", "pendings = 1"))
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir", delete=False) as file:
        file.write("\n".join(lines))
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
    return "later wait", "later wait"  # parts of the cache's key


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = stages_hook if form == "hook" else None
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "keys": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        order = r"commit_group(?=\.sync)|wait_group\S+\s+\d|\bex2(?=\.approx)|\bmul(?=\.\S*f32)"
        print(form, *re.findall(order, build(form).asm["ptx"]))
