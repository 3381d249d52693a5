"""Core Triton, a loop over tiles of C: does its pipeline go on past a tile's end, and when is C's store awaited?"""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FORMS = ("flat", "nested", "roles", "flat roles", "flat halves")


@triton.jit
def products(a_ptr, b_ptr, c_ptr, m, n, k, FLAT: tl.constexpr, ROLES: tl.constexpr, HALVES: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, [m, k], [k, 1], [128, 64])
    b_desc = tl.make_tensor_descriptor(b_ptr, [n, k], [k, 1], [256, 64])
    c_desc = tl.make_tensor_descriptor(c_ptr, [m, n], [n, 1], [128, 128 if HALVES else 256])
    tiles_m = tl.cdiv(m, 128)
    for tile in tl.range(
        tl.program_id(0), tiles_m * tl.cdiv(n, 256), tl.num_programs(0), flatten=FLAT, warp_specialize=ROLES
    ):
        row, column = tile % tiles_m * 128, tile // tiles_m * 256
        c = tl.zeros((128, 256), tl.float32)
        for step in range(tl.cdiv(k, 64)):
            c = tl.dot(a_desc.load([row, step * 64]), b_desc.load([column, step * 64]).T, c)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(c, (128, 2, 128)), (0, 2, 1)))
            c_desc.store([row, column], left.to(tl.float16))
            c_desc.store([row, column + 128], right.to(tl.float16))
        else:
            c_desc.store([row, column], c.to(tl.float16))


def build(form):
    words = form.split()
    constants = {name: name.lower() in words for name in ("FLAT", "ROLES", "HALVES")}
    signature = {**dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16"), **dict.fromkeys(("m", "n", "k"), "i32")}
    attrs = {(i,): [["tt.divisibility", 16]] for i in range(6)}
    source = ASTSource(products, {**signature, **dict.fromkeys(constants, "constexpr")}, constants, attrs)
    options = {"num_warps": 4 if form == "roles" else 8, "num_stages": 3}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    for form in FORMS:
        kernel = build(form)
        order = r"scf\.for|init_barrier|warp_group_dot_wait|async_tma_copy_local_to_global|async_tma_store_wait"
        print(form, "warps", kernel.metadata.num_warps, "shared", kernel.metadata.shared, end=" ")
        print(*re.findall(order, kernel.asm["ttgir"]))
