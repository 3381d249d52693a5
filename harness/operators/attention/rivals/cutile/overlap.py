"""cuTile: attention, without control over waits. With eight warps ptxas puts exponentials during a product."""

import re

import cuda.tile as ct
from assemble import assembled

FORMS = ("eight warps", "four warps")


@ct.kernel
def attend(q, k, v, o):
    queries, out = ct.load(q, (ct.bid(0), 0), (128, 64)), ct.zeros((128, 64), ct.float32)
    row_max, row_sum = ct.full((128, 1), -1e30, ct.float32), ct.zeros((128, 1), ct.float32)
    for step in range(ct.num_tiles(k, 0, (128, 64))):
        keys = ct.load(k, (0, step), (64, 128), order=(1, 0))
        s = ct.mma(queries, keys, ct.zeros((128, 128), ct.float32))
        new_max = ct.maximum(row_max, ct.max(s, 1, keepdims=True))
        p, rescale = ct.exp2(s - new_max), ct.exp2(row_max - new_max)
        row_sum, row_max = row_sum * rescale + ct.sum(p, 1, keepdims=True), new_max
        out = ct.mma(p.astype(ct.float16), ct.load(v, (step, 0), (128, 64)), out * rescale)
    ct.store(o, (ct.bid(0), 0), (out / row_sum).astype(ct.float16))


def build(form):
    return assembled(attend.replace_hints(num_worker_warps=8 if form == "eight warps" else 4), 4)


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"mma_async\.\S+|wait_group\.sync\S*\s+\d|\bex2(?=\.)", build(form)["ptx"]))
