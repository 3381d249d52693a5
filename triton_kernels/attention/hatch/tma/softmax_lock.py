"""Half of the warps at a time are in their softmax: named barriers by inline PTX, unknown to the compiler.

Builds on tma/lean_mbarrier_ring; changes the softmax of its loop. This is an escape hatch and no rung's twin, because
core Triton has no barrier for some of the warps. Warps 0 to 3 wait at barrier 9 before their softmax and arrive at
barrier 10 after it. The other four do the reverse, and arrive at 9 before the first iteration. Nothing in between may
need the whole block, or the kernel deadlocks. With eight warps along the rows of a tile, nothing does: each row's
maximum and sum are inside one warp.

ptxas moves arithmetic across barriers and sees through a move. Both ends therefore depend on values that it cannot
know: the scale on the clock, which is read after the wait, and the arrival on the sums.

The lock does not bring what it is for. The compiler places a barrier of the whole block between the softmax and P V,
where the half that is done waits for the other half before it multiplies.
"""

import triton
import triton.language as tl

from triton_kernels.attention.specialization import Twin, linear_grid, options

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
SECTION_BYTES = tl.constexpr(16 * 2**20)
"""Limit for K and V of the heads that run at the same time: well below the 40 to 60 MB L2 of A100, H100 and H200."""

PIECES = tl.constexpr(8)
"""Partial sums of a row, one for each column of an mma fragment; each lane holds two of them."""

FIRST = ".reg .pred first; .reg .b32 t; mov.u32 t, %tid.x; setp.lt.u32 first, t, 128;"
NEVER = ".reg .pred never; setp.lt.f32 never, x, 0f00000000;"
"""Always false, because x is never negative; ptxas cannot know that."""
BEGIN = tl.constexpr(f"{{ {FIRST} @!first bar.arrive 9, 256; mov.b32 $0, $1; }}")
WAIT = tl.constexpr(
    f"{{ {FIRST} @first bar.sync 9, 256; @!first bar.sync 10, 256; "
    f".reg .f32 x; mov.u32 t, %clock; cvt.rn.f32.u32 x, t; {NEVER} selp.b32 $0, 0, $1, never; }}"
)
END = tl.constexpr(f"{{ {FIRST} @first bar.sync 9, 256; mov.b32 $0, $1; }}")
"""PTX that each thread executes at the lock; it passes one number through unchanged."""


def _arrive(sums: int) -> tuple[tl.constexpr, tl.constexpr]:
    """Returns PTX and its constraints: a thread arrives once, after all of its sums, which pass through unchanged."""
    add = " ".join(f"add.f32 x, x, ${sums + i};" for i in range(sums))
    move = " ".join(f"mov.b32 ${i}, ${sums + i};" for i in range(sums))
    arrive = "selp.b32 t, 10, 9, first; selp.b32 t, 15, t, never; bar.arrive t, 256;"
    return (
        tl.constexpr(f"{{ {FIRST} .reg .f32 x; mov.b32 x, 0; {add} {NEVER} {arrive} {move} }}"),
        tl.constexpr(",".join(["=r"] * sums + ["r"] * sums)),
    )


ARRIVE_4, OPERANDS_4 = _arrive(4)
ARRIVE_8, OPERANDS_8 = _arrive(8)


@triton.jit
def _lock(PTX: tl.constexpr, number):
    """Executes PTX once in each thread, because `number` is a scalar."""
    return tl.inline_asm_elementwise(PTX, "=r,r", [number], dtype=tl.float32, is_pure=False, pack=1)


@triton.jit
def _leave(row_sum, BLOCK_M: tl.constexpr):
    """Passes the lock on after the sums: one instance of the PTX takes all sums that a thread holds."""
    if BLOCK_M == 128:
        row_sum = tl.inline_asm_elementwise(ARRIVE_4, OPERANDS_4, [row_sum], tl.float32, is_pure=False, pack=4)
    else:
        tl.static_assert(BLOCK_M == 256, "128 or 256 rows to eight warps")
        row_sum = tl.inline_asm_elementwise(ARRIVE_8, OPERANDS_8, [row_sum], tl.float32, is_pure=False, pack=8)
    return row_sum


@triton.jit
def _attend(
    o, row_max, row_sum, q, k_desc, v_desc, batch, kv_head, scale_log2, last_key, begin_tile, end_tile,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Adds key tiles end_tile - 1 down to begin_tile to O. MASKED: row i attends only to keys up to last_key[i]."""
    for step in tl.range(0, end_tile - begin_tile):
        start = (end_tile - 1 - step) * BLOCK_N

        # S = Q K^T
        k = k_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        s = tl.dot(q, tl.trans(k))
        if MASKED:
            key = start + tl.arange(0, BLOCK_N)
            s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax in base 2, in this half's turn: row_max and the exponents are scaled by log2(e)
        scale_here = _lock(WAIT, scale_log2)
        new_max = tl.maximum(row_max, tl.max(s, 1) * scale_here)
        rescale = tl.math.exp2(row_max - new_max)
        p = tl.math.exp2(s * scale_here - new_max[:, None])
        pieces = tl.sum(p.reshape((BLOCK_M, BLOCK_N // PIECES, PIECES)), 1)
        row_sum = _leave(row_sum * rescale[:, None] + pieces, BLOCK_M)
        row_max = new_max

        # O += P V
        o = o * rescale[:, None]
        v = v_desc.load([batch, kv_head, start, 0]).reshape((BLOCK_N, HEAD_DIM))
        o = tl.dot(p.to(v.dtype), v, o)
    return o, row_max, row_sum


@triton.jit
def softmax_lock(
    q_ptr, k_desc, v_desc, o_desc, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    heads_total = tl.num_programs(0) // q_tiles
    section_heads = SECTION_BYTES // (HEAD_DIM * 4) // seq_kv
    section_heads = tl.where(section_heads > 0, section_heads, 1)  # Triton 3.7 and 3.8 cannot interpret maximum here
    first = tl.program_id(0) // (section_heads * q_tiles) * section_heads
    count = tl.minimum(section_heads, heads_total - first)
    rest = tl.program_id(0) - first * q_tiles
    q_tile = q_tiles - 1 - rest // count
    batch_head = first + rest % count
    batch = batch_head // heads
    head = batch_head % heads
    row = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    dim = tl.arange(0, HEAD_DIM)

    # load Q: the last row is read in place of rows that do not exist
    q_ptr += batch.to(tl.int64) * q_stride_batch + head.to(tl.int64) * q_stride_head
    q = tl.load(q_ptr + (tl.minimum(row, seq_q - 1)[:, None] * q_stride_row + dim))

    o = tl.zeros((BLOCK_M, HEAD_DIM), tl.float32)
    row_max = tl.full((BLOCK_M,), LOWEST, tl.float32)
    row_sum = tl.zeros((BLOCK_M, PIECES), tl.float32)
    scale_log2 = _lock(BEGIN, scale * LOG2_E)
    # Tiles in which every row attends to all keys need no mask.
    last_key = tl.full((BLOCK_M,), seq_kv - 1, tl.int32)
    full_tiles = seq_kv // BLOCK_N
    key_tiles = tl.cdiv(seq_kv, BLOCK_N)
    if CAUSAL:
        last_key = tl.minimum(row + seq_kv - seq_q, last_key)
        first_last_key = q_tile * BLOCK_M + seq_kv - seq_q
        full_tiles = tl.maximum(first_last_key + 1, 0) // BLOCK_N
        key_tiles = tl.cdiv(tl.minimum(tl.maximum(first_last_key + BLOCK_M, 0), seq_kv), BLOCK_N)
    if CAUSAL or not EVEN_N:
        o, row_max, row_sum = _attend(
            o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, full_tiles, key_tiles,
            HEAD_DIM, BLOCK_M, BLOCK_N, True,
        )  # fmt: skip
    o, row_max, row_sum = _attend(
        o, row_max, row_sum, q, k_desc, v_desc, batch, head // group, scale_log2, last_key, 0, full_tiles,
        HEAD_DIM, BLOCK_M, BLOCK_N, False,
    )  # fmt: skip
    _lock(END, scale_log2)

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    row_sum = tl.sum(row_sum, 1)
    total = tl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    o_desc.store([batch, head, q_tile * BLOCK_M, 0], o.to(o_desc.dtype).reshape((1, 1, BLOCK_M, HEAD_DIM)))
    lse = tl.where(row_sum == 0, float("-inf"), (row_max + tl.math.log2(total)) * LN_2)
    tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)


twin = Twin(softmax_lock, lambda tile: options(tile, num_stages=tile.stages + 1), linear_grid)
