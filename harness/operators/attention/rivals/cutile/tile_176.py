"""cuTile: the sides of a tile are powers of two. 176 columns take three products; no wgmma has all of them."""

import re

import cuda.tile as ct
from assemble import assembled

FORMS = ("176", "joined", "composed", "edited")


@ct.kernel
def whole(a, b, c):
    product = ct.full((128, 176), 0.0, ct.float32)
    for k in range(ct.num_tiles(a, 1, (128, 64))):
        product = ct.mma(ct.load(a, (ct.bid(0), k), (128, 64)), ct.load(b, (k, 0), (64, 176)), product)
    ct.store(c, (ct.bid(0), 0), product.astype(ct.float16))


@ct.kernel
def joined(a, b, c):
    columns = ct.cat((ct.load(b, (0, 0), (64, 128)), ct.load(b, (0, 4), (64, 32))), 1)
    product = ct.mma(ct.load(a, (ct.bid(0), 0), (128, 64)), columns, ct.full((128, 160), 0.0, ct.float32))
    ct.store(c, (ct.bid(0), 0), product.astype(ct.float16))


@ct.kernel
def composed(a, b, c):
    x, y, z = ct.zeros((128, 128), ct.float32), ct.zeros((128, 32), ct.float32), ct.zeros((128, 16), ct.float32)
    for k in range(ct.num_tiles(a, 1, (128, 64))):
        rows = ct.load(a, (ct.bid(0), k), (128, 64))
        x = ct.mma(rows, ct.load(b, (k, 0), (64, 128)), x)
        y = ct.mma(rows, ct.load(b, (k, 4), (64, 32)), y)
        z = ct.mma(rows, ct.load(b, (k, 10), (64, 16)), z)
    ct.store(c, (ct.bid(0), 0), x.astype(ct.float16))
    ct.store(c, (ct.bid(0), 4), y.astype(ct.float16))
    ct.store(c, (ct.bid(0), 10), z.astype(ct.float16))


def build(form):
    kernel = {"176": whole, "joined": joined}.get(form, composed)
    return assembled(kernel, 3, edit="s/m64n128k16/m64n176k16/" if form == "edited" else "")


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *sorted(set(re.findall(r"m64n\d+k16", build(form)["ptx"]))))
        except Exception as error:
            print(form, error)
