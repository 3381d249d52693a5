"""Rows of shared memory padded by 16 bytes, so that eight rows of a column start in different banks.

Builds on direct_rescale; changes the layout of shared memory. Core Triton has no padded layout. Gluon has one, but it
is the one layout from which the compiler does not derive ldmatrix: it reads a padded tile's fragments element by
element.

Data moves as in direct_rescale.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import mma_v2

from triton_kernels.attention.specialization import Twin, options

LOWEST = gl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""


@gluon.constexpr_function
def copy_layout(head_dim, warps):
    """How the lanes share the copy of a tile: 16 bytes each, neighbours along a row."""
    return gl.BlockedLayout([1, 8], [256 // head_dim, head_dim // 8], [warps, 1], [1, 0])


@gluon.constexpr_function
def shared_layout(rows, head_dim):
    """The shared-memory layout of a tile of (rows, head_dim)."""
    return gl.PaddedSharedLayout.with_identity_for([[head_dim, 8]], [rows, head_dim], [1, 0])


@gluon.jit
def _attend(
    o, row_max, row_sum, q_smem, k_smem, v_smem, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key,
    begin, end, BLOCK_N: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Adds keys begin <= j < end to O. MASKED: row i attends only to keys up to last_key[i]."""
    mma: gl.constexpr = o.type.layout
    for start in range(begin, end, BLOCK_N):
        k_smem.store(gl.load(k_ptrs + start * k_stride_row))
        v_smem.store(gl.load(v_ptrs + start * v_stride_row))

        # S = Q K^T
        q_regs = q_smem.load(gl.DotOperandLayout(0, mma, 2))
        k_regs = k_smem.permute((1, 0)).load(gl.DotOperandLayout(1, mma, 2))
        s = mma_v2(q_regs, k_regs, gl.zeros((o.shape[0], BLOCK_N), gl.float32, mma)) * scale
        if MASKED:
            key = start + gl.arange(0, BLOCK_N, gl.SliceLayout(0, mma))
            s = gl.where(key[None, :] <= last_key[:, None], s, float("-inf"))

        # online softmax: the new row maximum first, then one exponential and no second multiply
        new_max = gl.maximum(row_max, gl.max(s, 1))
        rescale = gl.exp(row_max - new_max)
        p = gl.exp(s - new_max[:, None])
        row_sum = row_sum * rescale + gl.sum(p, 1)
        row_max = new_max
        o = o * rescale[:, None]

        # O += P V
        p_regs = gl.convert_layout(p.to(q_regs.dtype), gl.DotOperandLayout(0, mma, 2), assert_trivial=True)
        v_regs = v_smem.load(gl.DotOperandLayout(1, mma, 2))
        o = mma_v2(p_regs, v_regs, o)
    return o, row_max, row_sum


@gluon.jit
def padded_rows(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, group, seq_q, seq_kv,
    q_stride_batch, q_stride_head, q_stride_row, k_stride_batch, k_stride_head, k_stride_row,
    v_stride_batch, v_stride_head, v_stride_row, o_stride_batch, o_stride_head, o_stride_row,
    HEAD_DIM: gl.constexpr, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [gl.num_warps(), 1], [16, 8])
    copy: gl.constexpr = copy_layout(HEAD_DIM, gl.num_warps())
    batch = (gl.program_id(0) // heads).to(gl.int64)
    head = (gl.program_id(0) % heads).to(gl.int64)
    kv_head = head // group
    row = gl.program_id(1) * BLOCK_M + gl.arange(0, BLOCK_M, gl.SliceLayout(1, copy))
    key = gl.arange(0, BLOCK_N, gl.SliceLayout(1, copy))
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, copy))
    q_ptrs = q_ptr + batch * q_stride_batch + head * q_stride_head + row[:, None] * q_stride_row + dim[None, :]
    k_ptrs = k_ptr + batch * k_stride_batch + kv_head * k_stride_head + key[:, None] * k_stride_row + dim[None, :]
    v_ptrs = v_ptr + batch * v_stride_batch + kv_head * v_stride_head + key[:, None] * v_stride_row + dim[None, :]
    element: gl.constexpr = q_ptr.dtype.element_ty
    q_smem = gl.allocate_shared_memory(element, [BLOCK_M, HEAD_DIM], shared_layout(BLOCK_M, HEAD_DIM))
    k_smem = gl.allocate_shared_memory(element, [BLOCK_N, HEAD_DIM], shared_layout(BLOCK_N, HEAD_DIM))
    v_smem = gl.allocate_shared_memory(element, [BLOCK_N, HEAD_DIM], shared_layout(BLOCK_N, HEAD_DIM))

    # load Q
    q_smem.store(gl.load(q_ptrs))

    o = gl.zeros((BLOCK_M, HEAD_DIM), gl.float32, mma)
    row_max = gl.full((BLOCK_M,), LOWEST, gl.float32, gl.SliceLayout(1, mma))
    row_sum = gl.zeros((BLOCK_M,), gl.float32, gl.SliceLayout(1, mma))
    row = gl.program_id(1) * BLOCK_M + gl.arange(0, BLOCK_M, gl.SliceLayout(1, mma))
    last_key = row + seq_kv - seq_q
    keys = seq_kv
    full_end = keys
    if CAUSAL:
        # Tiles in which every row attends to all keys need no mask; the loop ends at the last row's last key.
        first_last_key = gl.program_id(1) * BLOCK_M + seq_kv - seq_q
        full_end = gl.maximum(first_last_key + 1, 0) // BLOCK_N * BLOCK_N
        keys = first_last_key + BLOCK_M
    o, row_max, row_sum = _attend(
        o, row_max, row_sum, q_smem, k_smem, v_smem, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key,
        0, full_end, BLOCK_N, False,
    )  # fmt: skip
    if CAUSAL:
        o, row_max, row_sum = _attend(
            o, row_max, row_sum, q_smem, k_smem, v_smem, k_ptrs, v_ptrs, k_stride_row, v_stride_row, scale, last_key,
            full_end, keys, BLOCK_N, True,
        )  # fmt: skip

    # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
    total = gl.where(row_sum == 0, 1.0, row_sum)
    o = o * (1.0 / total)[:, None]
    dim = gl.arange(0, HEAD_DIM, gl.SliceLayout(0, mma))
    o_ptrs = o_ptr + batch * o_stride_batch + head * o_stride_head + row[:, None] * o_stride_row + dim[None, :]
    gl.store(o_ptrs, o.to(element))
    lse = gl.where(row_sum == 0, float("-inf"), row_max + gl.log(total))
    gl.store(lse_ptr + gl.program_id(0).to(gl.int64) * seq_q + row, lse)


twin = Twin(padded_rows, lambda tile: options(tile, num_stages=1))
