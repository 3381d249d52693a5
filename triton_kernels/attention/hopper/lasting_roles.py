"""Roles that last for many tiles of queries: the producer loads the next tile while the others finish this one.

Builds on host_descriptors; changes the launch and puts a loop around the program. General: any lengths, strides,
grouped heads and head_dim 64, 128 and 256.

There is one program for each multiprocessor, which takes every nth tile. The request for roles stays at the inner loop,
over keys. The compiler gives each role both loops, and Q as many buffers as K and V. So the producer goes on to the
next tile's Q, K and V as soon as buffers are free, while the two consumers, each by itself, store their rows of O.
Without a mask tiles are taken head after head, so that the programs at work share K and V; with one, longest first in
sections of heads, as in the parent. There is no counter: in a loop with roles the compiler drops an atomic addition.
With a causal mask, whose tiles have different lengths, programs end at different times.

The producer writes the descriptor of each tile's Q to the same memory, so the last Q must have arrived by then. A tile
has more steps than stages, with masked keys where it needs fewer: the producer then has waited for a buffer of K that
both consumers released after a product with this Q.

As in producer_consumer the first row is made by way of 64 bits, and barriers that nobody uses lie where K is loaded:
beside other processes O may be wrong.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import DESCRIPTORS_BYTES, Twin, linear_grid, multiprocessors, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
SECTION_BYTES = tl.constexpr(16 * 2**20)
"""Limit for K and V of the heads that run at the same time: well below the 40 to 60 MB L2 of A100, H100 and H200."""

LEAST_STEPS = tl.constexpr(4)
"""Of a tile: more than a tile's stages, of which there are three at most."""


@triton.jit
def lasting_roles(
    q_ptr, k_desc, v_desc, o_ptr, lse_ptr, scale, batches, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    heads_total = batches * heads
    section_heads = SECTION_BYTES // (HEAD_DIM * 4) // seq_kv
    section_heads = tl.where(section_heads > 0, section_heads, 1)  # Triton 3.7 and 3.8 cannot interpret maximum here
    for number in tl.range(tl.program_id(0), heads_total * q_tiles, tl.num_programs(0)):
        if CAUSAL:
            first = number // (section_heads * q_tiles) * section_heads
            count = tl.minimum(section_heads, heads_total - first)
            rest = number - first * q_tiles
            q_tile = q_tiles - 1 - rest // count
            batch_head = first + rest % count
        else:
            q_tile = number % q_tiles
            batch_head = number // q_tiles
        batch = batch_head // heads
        head = batch_head % heads
        kv_head = head // group
        row = (q_tile.to(tl.int64) * BLOCK_M).to(tl.int32) + tl.arange(0, BLOCK_M)  # no descriptor's coordinate

        # load Q: rows that do not exist are zero
        q_head = q_ptr + batch.to(tl.int64) * q_stride_batch + head.to(tl.int64) * q_stride_head
        o_head = o_ptr + batch.to(tl.int64) * o_stride_batch + head.to(tl.int64) * o_stride_head
        q_desc = tl.make_tensor_descriptor(q_head, [seq_q, HEAD_DIM], [q_stride_row, 1], [BLOCK_M, HEAD_DIM])
        q = q_desc.load([q_tile * BLOCK_M, 0])

        o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
        row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
        row_sum = tl.zeros((BLOCK_M,), tl.float32)
        scale_log2 = scale * LOG2_E
        last_key = tl.full((BLOCK_M,), seq_kv - 1, tl.int32)
        key_tiles = tl.cdiv(seq_kv, BLOCK_N)
        if CAUSAL:
            last_key = tl.minimum(row + seq_kv - seq_q, last_key)
            end = tl.minimum(tl.maximum(q_tile * BLOCK_M + seq_kv - seq_q + BLOCK_M, 0), seq_kv)
            key_tiles = tl.cdiv(end, BLOCK_N)
        key_tiles = tl.maximum(key_tiles, LEAST_STEPS)
        for step in tl.range(0, key_tiles, warp_specialize=True):
            start = (key_tiles - 1 - step) * BLOCK_N

            # S = Q K^T
            k = k_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
            s = tl.dot(q, tl.trans(k))
            if CAUSAL or not EVEN_N:
                limit = last_key - start
                s = tl.where(tl.arange(0, BLOCK_N)[None, :] <= limit[:, None], s, float("-inf"))

            # online softmax in base 2: row_max and the exponents are scaled by log2(e)
            new_max = tl.maximum(row_max, tl.max(s, 1) * scale_log2)
            rescale = tl.math.exp2(row_max - new_max)
            p = tl.math.exp2(s * scale_log2 - new_max[:, None])
            row_sum = row_sum * rescale + tl.sum(p, 1)
            row_max = new_max

            # O += P V
            o = o * rescale[:, None]
            v = v_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
            o = tl.dot(p.to(v.dtype), v, o)

        # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
        total = tl.where(row_sum == 0, 1.0, row_sum)
        o = o * (1.0 / total)[:, None]
        o_ptrs = o_head + row.to(tl.int64)[:, None] * o_stride_row + tl.arange(0, HEAD_DIM)[None, :]
        tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), row[:, None] < seq_q)
        lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
        tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)


def _options(tile):
    return {**options(tile, num_stages=tile.stages), "num_warps": max(tile.warps // 2, 4)}


def _refine(arguments):
    rows = {f"{name}_stride_row": arguments[f"{name}_stride_row"] or arguments["HEAD_DIM"] for name in "qo"}
    needs_no_mask = arguments["EVEN_N"] and arguments["seq_kv"] >= LEAST_STEPS.value * arguments["BLOCK_N"]
    return {**arguments, **rows, "EVEN_N": needs_no_mask}


def _descriptors_bytes(problem):
    return DESCRIPTORS_BYTES * triton.cdiv(problem.seq_q, 128) * problem.heads * problem.batch


def _one_each(q, tile):
    """One program for each multiprocessor, but no more than tiles."""
    return (min(*linear_grid(q, tile), multiprocessors(q)),)


twin = Twin(lasting_roles, _options, _one_each, _refine, _descriptors_bytes)
