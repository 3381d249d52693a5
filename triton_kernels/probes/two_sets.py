"""Core Triton: is the next P converted while P V still reads this one? Three ways to ask for it, and a hook."""

import re
import tempfile

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("two steps", "scores in flight", "asm", "hook")
WAIT = (
    r"(%\w+):3 = ttng\.warp_group_dot_wait (%\w+), (%\w+), (%\w+) \{pendings = 0 : i32\} "
    r": (tensor<.*?>), (!.*?>), (tensor<.*?>)"
)


@triton.jit
def next_p(row_max, q, k):
    s = tl.dot(q, k)
    new_max = tl.maximum(row_max, tl.max(s, 1))
    return tl.exp2(s - new_max[:, None]).to(tl.float16), tl.exp2(row_max - new_max), new_max


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, steps, FORM: tl.constexpr):
    row, column, dim = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    k_at, v_at = column[None, :] * 64 + dim[:, None], column[:, None] * 64 + dim[None, :]
    q, o = tl.load(q_ptr + row[:, None] * 64 + dim), tl.zeros((128, 64), tl.float32)
    row_max, row_sum = tl.full((128,), -1e30, tl.float32), tl.zeros((128,), tl.float32)
    if FORM == "two steps":  # two iterations in one: each set has a name
        p, rescale, row_max = next_p(row_max, q, tl.load(k_ptr + k_at))
        for step in tl.range(0, steps, 2):
            o = tl.dot(p, tl.load(v_ptr + step * 4096 + v_at), o * rescale[:, None])
            other_p, rescale, row_max = next_p(row_max, q, tl.load(k_ptr + (step + 1) * 4096 + k_at))
            o = tl.dot(other_p, tl.load(v_ptr + (step + 1) * 4096 + v_at), o * rescale[:, None])
            p, rescale, row_max = next_p(row_max, q, tl.load(k_ptr + (step + 2) * 4096 + k_at))
    else:
        s = tl.dot(q, tl.load(k_ptr + k_at))
        p_bits = tl.zeros((128, 64), tl.int16)
        for step in tl.range(0, steps):
            o = tl.dot(p_bits.to(tl.float16, bitcast=True), tl.load(v_ptr + step * 4096 + v_at), o)
            above = s - row_max[:, None]
            s = tl.dot(q, tl.load(k_ptr + (step + 1) * 4096 + k_at))
            rise = tl.maximum(tl.max(above, 1), 0.0)
            p = tl.exp2(above - rise[:, None])
            row_max += rise
            row_sum = row_sum * tl.exp2(-rise) + tl.sum(p, 1)
            if FORM == "asm":  # a statement that the compiler does not move away
                p_bits = tl.inline_asm_elementwise("cvt.rn.f16.f32 $0, $1;", "=h,f", [p], tl.int16, False, 1)
            else:
                p_bits = p.to(tl.float16).to(tl.int16, bitcast=True)
            o = o * tl.exp2(-rise)[:, None]
    tl.store(o_ptr + row[:, None] * 64 + dim, (o - row_sum[:, None]).to(tl.float16))


def edited(ttgir):
    """A file with the same module, in which the wait for S and P V is one for S; P V is waited for where O is read."""
    text = str(ttgir)
    both, o, v, s, o_type, v_type, s_type = re.search(WAIT, text).groups()
    text = re.sub(WAIT, f"{both}_s = ttng.warp_group_dot_wait {s} {{pendings = 1 : i32}} : {s_type}", text, count=1)
    awaited = f"{both}_o:2 = ttng.warp_group_dot_wait {o}, {v} {{pendings = 1 : i32}} : {o_type}, {v_type}"
    text = re.sub(rf"^.*{both}#0", rf"{awaited}\n\g<0>", text, count=1, flags=re.MULTILINE)
    text = text.replace(f"{both}#2", f"{both}_s").replace(f"{both}#0", f"{both}_o#0")
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
    return "later wait", "later wait"  # parts of the cache's key


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = stages_hook if form == "hook" else None
    pointers = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16")
    signature = {**pointers, "steps": "i32", "FORM": "constexpr"}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(4)}
    source = ASTSource(attend, signature, {"FORM": form}, attrs)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})


if __name__ == "__main__":
    for form in FORMS:
        order = r"wgmma\.mma_async(?=\S* \{[^}\n]*\}, ?\{)|wait_group\.sync\S*\s+\d|\bcvt(?=\.rn\.\S*f16)"
        print(form, *re.findall(order, build(form).asm["ptx"]))
