"""The kernels before and after the main one: what each query row needs as a number, and dQ in 16 bits."""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def row_sums(
    o_ptr, do_ptr, lse_ptr, dq_sums, dots, lse_log2, heads, seq_q, scratch_rows,
    o_stride_batch, o_stride_head, o_stride_row, do_stride_batch, do_stride_head, do_stride_row,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, CLEARS: tl.constexpr,
):  # fmt: skip
    """D = rowsum(dO o O), and LSE in base 2, of ROWS rows. Rows from seq_q on, and rows that see no key, get LSE +inf,
    so that their P is exp2(-inf) = 0. CLEARS: zeros the sums of dQ, too."""
    tiles = scratch_rows // ROWS
    batch_head = (tl.program_id(0) // tiles).to(tl.int64)
    batch = batch_head // heads
    head = batch_head % heads
    row = tl.program_id(0) % tiles * ROWS + tl.arange(0, ROWS)
    dim = tl.arange(0, HEAD_DIM)
    exists = row < seq_q
    o_rows = o_ptr + batch * o_stride_batch + head * o_stride_head + row.to(tl.int64) * o_stride_row
    do_rows = do_ptr + batch * do_stride_batch + head * do_stride_head + row.to(tl.int64) * do_stride_row
    o = tl.load(o_rows[:, None] + dim, exists[:, None], 0.0).to(tl.float32)
    do = tl.load(do_rows[:, None] + dim, exists[:, None], 0.0).to(tl.float32)
    lse = tl.load(lse_ptr + batch_head * seq_q + row, exists, float("-inf"))
    place = batch_head * scratch_rows + row
    tl.store(dots + place, tl.sum(o * do, 1))
    tl.store(lse_log2 + place, tl.where(lse == float("-inf"), float("inf"), lse * LOG2_E))
    if CLEARS:
        tl.store(dq_sums + place[:, None] * HEAD_DIM + dim, tl.zeros((ROWS, HEAD_DIM), tl.float32))


@triton.jit
def convert_dq(
    dq_ptr, dq_sums, scale, heads, seq_q, scratch_rows, dq_stride_batch, dq_stride_head, dq_stride_row,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """dQ = scale times its sums, of ROWS rows."""
    tiles = tl.cdiv(seq_q, ROWS)
    batch_head = (tl.program_id(0) // tiles).to(tl.int64)
    batch = batch_head // heads
    head = batch_head % heads
    row = tl.program_id(0) % tiles * ROWS + tl.arange(0, ROWS)
    dim = tl.arange(0, HEAD_DIM)
    sums = tl.load(dq_sums + (batch_head * scratch_rows + row)[:, None] * HEAD_DIM + dim)
    dq_rows = dq_ptr + batch * dq_stride_batch + head * dq_stride_head + row.to(tl.int64) * dq_stride_row
    tl.store(dq_rows[:, None] + dim, (sums * scale).to(dq_ptr.dtype.element_ty), (row < seq_q)[:, None])
