"""Core Triton: a hook runs the body of a kernel of one warpgroup in three warpgroups, each with rows of its own."""

import re
import tempfile

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "hook")


@triton.jit
def attend(q_ptr, k_ptr, v_ptr, o_ptr, keys):
    row, column, dim = tl.program_id(0) * 64 + tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    q, o = tl.load(q_ptr + row[:, None] * 64 + dim), tl.zeros((64, 64), tl.float32)
    for start in tl.range(0, keys, 64):
        p = tl.exp2(tl.dot(q, tl.load(k_ptr + (start + column)[None, :] * 64 + dim[:, None])))
        o = tl.dot(p.to(tl.float16), tl.load(v_ptr + (start + column)[:, None] * 64 + dim[None, :]), o)
    tl.store(o_ptr + row[:, None] * 64 + dim, o.to(tl.float16))


def edited(ttgir):
    """A file with the same module, in which three roles have the kernel's body: 192 rows a block instead of 64."""
    start, arguments, opening, body, end = re.fullmatch(
        r"(.*tt\.func public @\w+\()(.*?)(\) attributes .*?\{\n)(.*?)( +tt\.return.*)", str(ttgir), re.DOTALL
    ).groups()
    names, types = zip(*re.findall(r"(%\w+): ([^ ,)]+)", arguments), strict=True)
    given = ", ".join(f"{name}_given: {kind}" for name, kind in zip(names, types, strict=True))
    first, *others = (
        re.sub(
            r"(%\w+) = tt\.get_program_id x : i32",
            rf"%three = arith.constant 3 : i32\n%role = arith.constant {role} : i32\n%block = tt.get_program_id x : i32"
            r"\n%rows = arith.muli %block, %three : i32\n\1 = arith.addi %rows, %role : i32",
            body,
        )
        for role in range(3)
    )
    second, third = (re.sub(rf"({'|'.join(names)})\b", r"\1_given", other) for other in others)
    roles = f"""ttg.warp_specialize({", ".join(names)}) attributes {{requestedRegisters = array<i32: 160, 160>}}
        default {{\n{first}ttg.warp_yield\n}}
        partition0({given}) num_warps(4) {{\n{second}ttg.warp_return\n}}
        partition1({given}) num_warps(4) {{\n{third}ttg.warp_return\n}} : ({", ".join(types)}) -> ()\n"""
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir", delete=False) as file:
        file.write(start + arguments + opening + roles + end)
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
    return "three roles", "three roles"  # parts of the cache's key


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = stages_hook if form == "hook" else None
    signature = {**dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16"), "keys": "i32"}
    source = ASTSource(attend, signature, attrs={(i,): [["tt.divisibility", 16]] for i in range(5)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        roles = re.findall(r"partition\d(?=\()|num_warps\(4\)", kernel.asm["ttgir"])
        print(
            form, *roles, "warps", kernel.metadata.num_warps, *re.findall(r"\bHGMMA\b", kernel.asm["sass"]), flush=True
        )
