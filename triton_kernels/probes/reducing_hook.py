"""Core Triton: a hook moves atomic additions into a role of one warp, to which the warps that multiply hand a tile."""

import re
import tempfile

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("plain", "hook")
LAYOUTS = """
#one = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [1, 1], order = [1, 0]}>
#rows = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#flags = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
"""
TILE, FLAG = "!ttg.memdesc<64x64xf32, #rows, #smem, mutable>", "!ttg.memdesc<1xi64, #flags, #smem, mutable>"
ROW, COLUMN = (f"#ttg.slice<{{dim = {dim}, parent = #one}}>" for dim in (1, 0))
ADD = f"""
%c0 = arith.constant 0 : i32
%yes = arith.constant dense<true> : tensor<64x64xi1, #one>
%width = arith.constant dense<64> : tensor<64x1xi32, #one>
%r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, {ROW}>
%r1 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<64xi32, {ROW}> -> tensor<64x1xi32, #one>
%r2 = arith.muli %r1, %width : tensor<64x1xi32, #one>
%c = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, {COLUMN}>
%c1 = tt.expand_dims %c {{axis = 0 : i32}} : tensor<64xi32, {COLUMN}> -> tensor<1x64xi32, #one>
%c2 = tt.broadcast %c1 : tensor<1x64xi32, #one> -> tensor<64x64xi32, #one>
%d = tt.splat %sum_given : !tt.ptr<f32> -> tensor<64x1x!tt.ptr<f32>, #one>
%d1 = tt.addptr %d, %r2 : tensor<64x1x!tt.ptr<f32>, #one>, tensor<64x1xi32, #one>
%d2 = tt.broadcast %d1 : tensor<64x1x!tt.ptr<f32>, #one> -> tensor<64x64x!tt.ptr<f32>, #one>
%d3 = tt.addptr %d2, %c2 : tensor<64x64x!tt.ptr<f32>, #one>, tensor<64x64xi32, #one>
ttng.wait_barrier %full_given, %c0 : {FLAG}
%x = ttg.local_load %tile_given : {TILE} -> tensor<64x64xf32, #one>
%before = tt.atomic_rmw fadd, acq_rel, gpu, %d3, %x, %yes : (tensor<64x64x!tt.ptr<f32>, #one>, tensor<64x64xf32, #one>, tensor<64x64xi1, #one>) -> tensor<64x64xf32, #one>
"""  # noqa: E501


@triton.jit
def add_product(q_ptr, k_ptr, sum_ptr, keys):
    row, column, dim = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 64)
    q, sums = tl.load(q_ptr + row[:, None] * 64 + dim), tl.zeros((64, 64), tl.float32)
    for start in tl.range(0, keys, 64):
        sums = tl.dot(q, tl.load(k_ptr + (start + column)[None, :] * 64 + dim[:, None]), sums)
    tl.atomic_add(sum_ptr + row[:, None] * 64 + column, sums)


def edited(ttgir):
    """A file with the same module, in which the product goes through shared memory to a role that adds it."""
    text = re.sub(r" loc\((?:[^()]|\([^()]*\))*\)|^#loc.*\n", "", str(ttgir), flags=re.MULTILINE)
    head, body = re.fullmatch(r"(.*tt\.func public [^\n]*\{\n)(.*)", text, re.DOTALL).groups()
    multiply = body.partition("tt.splat %sum_ptr")[0].rpartition("\n")[0]
    product = re.findall(r"(%\w+)\S* = ttng\.warp_group_dot_wait", multiply)[-1]
    roles = f"""%tile = ttg.local_alloc : () -> {TILE}
        %full = ttg.local_alloc : () -> {FLAG}
        ttng.init_barrier %full, 1 : {FLAG}
        ttg.warp_specialize(%sum_ptr, %tile, %full) attributes {{requestedRegisters = array<i32: 24>}}
        default {{\n{multiply}
        ttg.local_store {product}#0, %tile : tensor<64x64xf32, #mma> -> {TILE}
        ttng.arrive_barrier %full, 1 : {FLAG}
        ttg.warp_yield\n}}
        partition0(%sum_given: !tt.ptr<f32>, %tile_given: {TILE}, %full_given: {FLAG}) num_warps(1) {{{ADD}
        ttg.warp_return\n}} : (!tt.ptr<f32>, {TILE}, {FLAG}) -> ()
        tt.return\n}}\n}}\n"""
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir", delete=False) as file:
        file.write(LAYOUTS + head + roles)
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
    return "a warp that adds", "a warp that adds"  # parts of the cache's key


def build(form):
    triton.knobs.compilation.always_compile = True  # the cache does not know of hooks
    triton.knobs.runtime.add_stages_inspection_hook = stages_hook if form == "hook" else None
    signature = {"q_ptr": "*fp16", "k_ptr": "*fp16", "sum_ptr": "*fp32", "keys": "i32"}
    source = ASTSource(add_product, signature, attrs={(i,): [["tt.divisibility", 16]] for i in range(4)})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_stages": 2})


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        roles = re.findall(r"num_warps\(1\)|ttng\.wait_barrier|tt\.atomic_rmw|ttg\.warp_return", kernel.asm["ttgir"])
        print(form, "warps", kernel.metadata.num_warps, *roles, flush=True)
