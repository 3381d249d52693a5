"""cuTile: what the compiler does unasked, and what its hints change: swizzle, roles, registers, clusters."""

import re

import cuda.tile as ct
from assemble import assembled

FORMS = ("plain", "narrow", "copy", "not optimized", "eight warps", "two blocks", "barrier")


@ct.kernel
def multiply(a, b, c):
    row, product = ct.bid(0), ct.full((128, 128), 0.0, ct.float32)
    for k in range(ct.num_tiles(a, 1, (128, 64))):
        product = ct.mma(ct.load(a, (row, k), (128, 64)), ct.load(b, (k, 0), (64, 128)), product)
    ct.store(c, (row, 0), product.astype(ct.float16))


@ct.kernel
def multiply_narrow(a, b, c):
    row, product = ct.bid(0), ct.full((128, 128), 0.0, ct.float32)
    for k in range(ct.num_tiles(a, 1, (128, 16))):
        product = ct.mma(ct.load(a, (row, k), (128, 16)), ct.load(b, (k, 0), (16, 128)), product)
    ct.store(c, (row, 0), product.astype(ct.float16))


@ct.kernel
def copy(a, b, c):
    ct.store(c, (ct.bid(0), 0), ct.load(a, (ct.bid(0), 0), (128, 64)))


def build(form):
    kernel = {"narrow": multiply_narrow, "copy": copy}.get(form, multiply)
    if form == "eight warps":
        kernel = kernel.replace_hints(num_worker_warps=8)
    if form == "two blocks":
        kernel = kernel.replace_hints(num_ctas=2)
    # No word for a barrier with a number: an edit of the PTX on its way to ptxas.
    edit = r"s/^.*wgmma\.fence.*/bar.sync 9, 128;\n&/" if form == "barrier" else ""
    return assembled(kernel, 3, edit=edit, level=0 if form == "not optimized" else 3)


if __name__ == "__main__":
    for form in FORMS:
        text = build(form)["ptx"]
        print(
            form, *sorted(set(re.findall(r"-?46116\d{14}|setmaxnreg\S+\s+\d+|bar\.sync\s+\d.*|\S+multicast\S+", text)))
        )
