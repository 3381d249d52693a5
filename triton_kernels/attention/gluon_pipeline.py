"""Plumbing of the persistent Gluon kernels: the buffers in shared memory, and the warp that loads.

The softmax and the order of the products are in each kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from triton_kernels.attention import gluon_warpgroups as wg


class Buffers(NamedTuple):
    """What the warps of a block share in shared memory."""

    q_smem: gl.shared_memory_descriptor
    k_smem: gl.shared_memory_descriptor
    v_smem: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    k_full: gl.shared_memory_descriptor
    v_full: gl.shared_memory_descriptor
    q_empty: gl.shared_memory_descriptor
    k_empty: gl.shared_memory_descriptor
    v_empty: gl.shared_memory_descriptor
    turns: gl.shared_memory_descriptor
    pins: gl.shared_memory_descriptor
    queue: gl.tuple


class Sizes(NamedTuple):
    heads_total: gl.tensor
    heads: gl.tensor
    group: gl.tensor
    seq_q: gl.tensor
    seq_kv: gl.tensor


@gluon.jit
def allocate(q_desc, k_desc, v_desc, GROUPS: gl.constexpr, STAGES: gl.constexpr, Q_BUFFERS: gl.constexpr):
    """Allocates the buffers of GROUPS consumer warpgroups and initializes their barriers."""
    q_smem = wg.buffers(q_desc, Q_BUFFERS * GROUPS)
    k_smem = wg.buffers(k_desc, STAGES)
    v_smem = wg.buffers(v_desc, STAGES)
    q_full = wg.barriers(Q_BUFFERS, 1)
    k_full = wg.barriers(STAGES, 1)
    v_full = wg.barriers(STAGES, 1)
    q_empty = wg.barriers(Q_BUFFERS, GROUPS)
    k_empty = wg.barriers(STAGES, GROUPS)
    v_empty = wg.barriers(STAGES, GROUPS)
    turns = wg.barriers(GROUPS, 1)
    pins = wg.numbers(GROUPS, gl.float32)
    queue = wg.tile_queue(GROUPS)
    fence_async_shared()
    return Buffers(q_smem, k_smem, v_smem, q_full, k_full, v_full, q_empty, k_empty, v_empty, turns, pins, queue)


@gluon.jit
def produce(loads, HEAD_BY_HEAD: gl.constexpr, CAUSAL: gl.constexpr):
    """Loads tile after tile, longest first or head by head: Q, then in every iteration K and the previous iteration's
    V, each as soon as its buffer is empty."""
    buffers, sizes, q_desc, k_desc, v_desc, counter = loads
    BLOCK_N: gl.constexpr = buffers.k_smem.shape[3]
    HEAD_DIM: gl.constexpr = buffers.k_smem.shape[4]
    BLOCK_M: gl.constexpr = buffers.turns.shape[0] * wg.ROWS
    q_tiles = (sizes.seq_q + BLOCK_M - 1) // BLOCK_M
    number = gl.program_id(0)
    tile = 0
    step = 0
    while number < sizes.heads_total * q_tiles:
        wg.put(buffers.queue, tile, number)
        if HEAD_BY_HEAD:
            batch_head, q_tile = wg.head_by_head(number, sizes.heads_total, q_tiles, sizes.seq_kv, HEAD_DIM, CAUSAL)
        else:
            batch_head, q_tile = wg.longest_first(number, sizes.heads_total, q_tiles, sizes.seq_kv, HEAD_DIM)
        batch, head = batch_head // sizes.heads, batch_head % sizes.heads
        q_start = q_tile * BLOCK_M
        _, key_tiles = wg.key_tiles(q_start, BLOCK_M, sizes.seq_q, sizes.seq_kv, BLOCK_N, CAUSAL)
        wg.wait_empty(buffers.q_empty, tile)
        wg.load_rows(q_desc, buffers.q_smem, buffers.q_full, tile, batch, head, q_start)
        for j in range(key_tiles + 1):
            if j < key_tiles:
                wg.wait_empty(buffers.k_empty, step + j)
                wg.load(k_desc, buffers.k_smem, buffers.k_full, step + j, batch, head // sizes.group, j * BLOCK_N)
            else:
                number = wg.take_number(counter, sizes.heads_total * q_tiles)
            if j > 0:
                wg.wait_empty(buffers.v_empty, step + j - 1)
                wg.load(
                    v_desc, buffers.v_smem, buffers.v_full, step + j - 1, batch, head // sizes.group, (j - 1) * BLOCK_N
                )
        step += key_tiles
        tile += 1
    wg.put(buffers.queue, tile, number)


@gluon.jit
def hand_back(q_empty, tile):
    """Releases Q's buffer of a tile after the TMA store has read O from it."""
    tma.store_wait(0)
    wg.arrive(q_empty, tile)
