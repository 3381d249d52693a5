"""The flagship's schedule in TLX, Meta's extensions of core Triton. General: any lengths, strides, grouped heads and
head_dim 64, 128 and 256.

One block per multiprocessor takes tile after tile from a counter. A producer loads Q, K and V. Two or three math
warpgroups take turns, by named barriers, at issuing the next Q K^T with the previous P V, and stop at their own
diagonals. O leaves by TMA from the buffer of Q; where Q has two buffers, that is waited for in the next tile. As in
Gluon, an if is for all warps of a group, so O is rescaled in every iteration. But no branch is needed to compare
scores as integers: once no row maximum of a warpgroup is negative, none will be.

The loops over keys are `while` loops, because in a `for` loop stock Triton's pipeliner waits for each product at once.
The producer has four warps, not one: the plugin chooses the layout of what a task writes to shared memory for as many
warps as the first task has.

The kernel is compiled for the expressibility matrix and is in no ladder, because Triton 3.8 and the plugin are not the
installed Triton.
"""

import triton
import triton.language as tl
import utlx_plugin as tlx

from triton_kernels.attention.specialization import Twin, describe, options, persistent_grid

LOWEST = tl.constexpr(-3.0e38)
"""Initial row maximum: finite, so that a row that has seen no key yet never computes -inf - -inf, which is NaN."""

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
ROWS = tl.constexpr(64)
"""Query rows of a warpgroup: the 64 of one wgmma."""

TURN = tl.constexpr(256)
"""Threads at a turn's barrier: one warpgroup waits, and the one before it arrives."""

FIRST_TURN = tl.constexpr(8)
"""Number of the first turn's barrier; the compiler uses lower numbers."""

SHARED_MEMORY_BYTES = 227 * 1024
"""Bytes of shared memory that a block can request on compute capability 9.0."""


@triton.constexpr_function
def _carried(element, head_dim, block_n, groups):
    """The dtype in which the loops carry P.

    fp32 if P fits into the registers beside O and the next scores (160 registers a thread with three warpgroups, 240
    with fewer), otherwise the 16-bit element type, whose pairs the compiler unpacks and packs again.
    """
    return tl.float32 if head_dim + 2 * block_n <= (256 if groups == 3 else 384) else element


@triton.constexpr_function
def _pieces(carried):
    """How many partial sums of a row the loops carry: one for each column of an mma fragment, of which each lane holds
    two, where registers are left, else one."""
    return 8 if carried == tl.float32 else 1


@triton.jit
def _wait_full(ring, step, STAGES: tl.constexpr):
    """Waits until the buffer of `step` is filled; steps count from 0 over all uses of the ring."""
    tlx.barrier_wait(ring[step % STAGES], (step // STAGES) & 1)


@triton.jit
def _wait_empty(ring, step, STAGES: tl.constexpr):
    """Waits until the buffer of `step` may be filled; in the first round it returns at once."""
    tlx.barrier_wait(ring[step % STAGES], ((step // STAGES) & 1) ^ 1)


@triton.jit
def _load(desc, smem, full, step, batch, head, row, STAGES: tl.constexpr, BYTES: tl.constexpr):
    """Issues the load of the rows from `row` on into the buffer of `step`; it completes on that buffer's barrier."""
    at = step % STAGES
    tlx.barrier_expect_bytes(full[at], BYTES)
    tlx.async_descriptor_load(desc, smem[at], [batch, head, row, 0], full[at])


@triton.jit
def _key_tiles(first_row, rows, seq_q, seq_kv, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):
    """For the query rows from first_row on: how many key tiles need no mask, how many some row needs (at least 1)."""
    whole = seq_kv // BLOCK_N
    keys = seq_kv
    if CAUSAL:
        first_last_key = first_row + seq_kv - seq_q
        whole = tl.minimum(tl.maximum(first_last_key + 1, 0) // BLOCK_N, whole)
        keys = tl.minimum(tl.maximum(first_last_key + rows, 0), seq_kv)
    return whole, tl.maximum((keys + BLOCK_N - 1) // BLOCK_N, 1)


@triton.jit
def _head_by_head(number, heads_total, q_tiles, seq_kv, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr):
    """Returns (batch * heads + head, q_tile) of a tile's number: head after head, the last q_tile of each head first.

    With a causal mask the last heads are taken together, longest tiles first, so that short tiles fill the end. These
    are two tiles for each program, or as many heads as have K and V in 32 MB (about half of the L2 cache of an H200) if
    that is less.
    """
    batch_head = number // q_tiles
    place = number % q_tiles
    if CAUSAL:
        wanted = (2 * tl.num_programs(0) + q_tiles - 1) // q_tiles
        fitting = tl.maximum(32 * 2**20 // (HEAD_DIM * 4) // seq_kv, 1)
        last_heads = tl.minimum(tl.minimum(wanted, fitting), heads_total)
        rest = number - (heads_total - last_heads) * q_tiles
        if rest >= 0:
            batch_head = heads_total - last_heads + rest % last_heads
            place = rest // last_heads
    return batch_head, q_tiles - 1 - place


@triton.jit
def _hand_back(q_empty, tile, Q_BUFFERS: tl.constexpr):
    """Releases Q's buffer of a tile after the TMA store has read O from it."""
    tlx.async_descriptor_store_wait(0)
    tlx.barrier_arrive(q_empty[tile % Q_BUFFERS], 1)


@triton.jit
def _halves(x):
    """The left and the right half of a matrix, of which each thread has as many columns."""
    return tl.split(x.reshape((x.shape[0], 2, x.shape[1] // 2)).permute((0, 2, 1)))


@triton.jit
def _largest(s):
    """The largest score of each row that has one of at least 0: such scores order as their bits do, and all others are
    negative integers. `tl.max` takes maxima in pairs, then of pairs; one after another, more become one of three."""
    left, right = _halves(s.to(tl.int32, bitcast=True))
    first, second = _halves(left)
    third, fourth = _halves(right)
    of_quarters = tl.maximum(tl.maximum(tl.maximum(first, second), third), fourth)
    return tl.max(of_quarters, 1).to(tl.float32, bitcast=True)


@triton.jit
def _softmax(
    s, row_max, row_sum, scale_log2, pin, k_empty, step, STAGES: tl.constexpr, INTEGERS: tl.constexpr,
):  # fmt: skip
    """Returns P, the new row_max and row_sum, and the factor for O. row_max and the exponents are in base 2.

    Releases K of this step when the row maxima are known. INTEGERS: no row_max is negative, so that no negative score
    becomes one.
    """
    new_max = tl.maximum(row_max, (_largest(s) if INTEGERS else tl.max(s, 1)) * scale_log2)
    tlx.local_store(pin, new_max)
    tlx.barrier_arrive(k_empty[step % STAGES], 1)
    rescale = tl.math.exp2(row_max - new_max)
    p = tl.math.exp2(s * scale_log2 - new_max[:, None])
    pieces: tl.constexpr = row_sum.shape[1]
    sums = tl.sum(p.reshape((ROWS, p.shape[1] // pieces, pieces)), 1)
    return p, new_max, row_sum * rescale[:, None] + sums, rescale


@triton.jit
def _step(
    s, o, p, row_max, row_sum, q, k_smem, v_smem, k_full, v_full, k_empty, v_empty, pin, scale_log2, last_key, j, step,
    BLOCK_N: tl.constexpr, STAGES: tl.constexpr, MASKED: tl.constexpr, INTEGERS: tl.constexpr, GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
):  # fmt: skip
    """Issues Q K^T of tile j, whose K and V have ring position `step`, together with P V of the previous tile."""
    if not MASKED:
        tlx.named_barrier_wait(FIRST_TURN + GROUP, TURN)
    _wait_full(k_full, step, STAGES)
    s = tlx.async_dot(q, tlx.local_trans(k_smem[step % STAGES]), s, use_acc=False)
    _wait_full(v_full, step - 1, STAGES)
    o = tlx.async_dot(p.to(v_smem.dtype), v_smem[(step - 1) % STAGES], o)
    if not MASKED:
        tlx.named_barrier_arrive(FIRST_TURN + (GROUP + 1) % GROUPS, TURN)
    s = tlx.async_dot_wait(1, s)
    if MASKED:
        key = j * BLOCK_N + tl.arange(0, BLOCK_N)
        s = tl.where(key[None, :] <= last_key[:, None], s, float("-inf"))
    scores, row_max, row_sum, rescale = _softmax(s, row_max, row_sum, scale_log2, pin, k_empty, step, STAGES, INTEGERS)
    o = tlx.async_dot_wait(0, o)
    tlx.barrier_arrive(v_empty[(step - 1) % STAGES], 1)
    return s, o * rescale[:, None], scores.to(p.dtype), row_max, row_sum


@triton.jit
def flagship(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, counter, scale, batches, heads, group, seq_q, seq_kv,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
    STAGES: tl.constexpr, Q_BUFFERS: tl.constexpr,
):  # fmt: skip
    GROUPS: tl.constexpr = BLOCK_M // ROWS
    INTEGERS: tl.constexpr = GROUPS == 2 and (HEAD_DIM == 64 or (HEAD_DIM == 128 and not CAUSAL))  # as in Gluon
    KV_BYTES: tl.constexpr = BLOCK_N * HEAD_DIM * 2
    element: tl.constexpr = q_desc.dtype
    carried: tl.constexpr = _carried(element, HEAD_DIM, BLOCK_N, GROUPS)
    pieces: tl.constexpr = _pieces(carried)
    q_smem = tlx.local_alloc((ROWS, HEAD_DIM), element, Q_BUFFERS * GROUPS)
    k_smem = tlx.local_alloc((BLOCK_N, HEAD_DIM), element, STAGES)
    v_smem = tlx.local_alloc((BLOCK_N, HEAD_DIM), element, STAGES)
    q_full, q_empty = tlx.alloc_barriers(Q_BUFFERS, 1), tlx.alloc_barriers(Q_BUFFERS, GROUPS)
    k_full, v_full = tlx.alloc_barriers(STAGES, 1), tlx.alloc_barriers(STAGES, 1)
    k_empty, v_empty = tlx.alloc_barriers(STAGES, GROUPS), tlx.alloc_barriers(STAGES, GROUPS)
    pins = tlx.local_alloc((ROWS,), tl.float32, GROUPS)
    # The queue by which the producer passes tile numbers to the consumer warpgroups.
    slots, slot_full, slot_empty = (
        tlx.local_alloc((1,), tl.int32, 2), tlx.alloc_barriers(2, 1), tlx.alloc_barriers(2, GROUPS)
    )  # fmt: skip
    q_tiles = tl.cdiv(seq_q, BLOCK_M)
    tiles = batches * heads * q_tiles

    with tlx.async_tasks():
        with tlx.async_task("default", registers=240 if GROUPS == 2 else 160, replicate=GROUPS):
            GROUP: tl.constexpr = tlx.async_task_replica_id()
            scale_log2 = scale * LOG2_E
            pin = pins[GROUP]
            tile = 0
            step = 0  # the ring position of this tile's first K and V
            _wait_full(slot_full, tile, 2)
            number = tl.max(tlx.local_load(slots[0]), 0)
            tlx.barrier_arrive(slot_empty[0], 1)
            if GROUP == GROUPS - 1:
                tlx.named_barrier_arrive(FIRST_TURN, TURN)
            while number < tiles:
                batch_head, q_tile = _head_by_head(number, batches * heads, q_tiles, seq_kv, HEAD_DIM, CAUSAL)
                q_start = q_tile * BLOCK_M
                first_row = q_start + GROUP * ROWS
                whole_tiles, key_tiles = _key_tiles(q_start, BLOCK_M, seq_q, seq_kv, BLOCK_N, CAUSAL)
                _, own_tiles = _key_tiles(first_row, ROWS, seq_q, seq_kv, BLOCK_N, CAUSAL)
                row = first_row + tl.arange(0, ROWS)
                last_key = tl.full((ROWS,), seq_kv - 1, tl.int32)
                if CAUSAL:
                    last_key = tl.minimum(row + seq_kv - seq_q, last_key)
                o = tl.zeros((ROWS, HEAD_DIM), tl.float32)
                row_max, row_sum = tl.full((ROWS,), LOWEST, tl.float32), tl.zeros((ROWS, pieces), tl.float32)

                # prologue: the first Q K^T overlaps with no P V
                q = q_smem[tile % Q_BUFFERS * GROUPS + GROUP]
                _wait_full(q_full, tile, Q_BUFFERS)
                _wait_full(k_full, step, STAGES)
                s = tlx.async_dot(q, tlx.local_trans(k_smem[step % STAGES]))
                s = tlx.async_dot_wait(0, s)
                if Q_BUFFERS > 1 and tile > 0:
                    _hand_back(q_empty, tile - 1, Q_BUFFERS)
                if CAUSAL or not EVEN_N:
                    s = tl.where(tl.arange(0, BLOCK_N)[None, :] <= last_key[:, None], s, float("-inf"))
                scores, row_max, row_sum, _ = _softmax(
                    s, row_max, row_sum, scale_log2, pin, k_empty, step, STAGES, False
                )  # fmt: skip
                p = scores.to(carried)

                j = 1
                if INTEGERS:
                    while (j < whole_tiles) & (tl.min(row_max, 0) < 0):
                        s, o, p, row_max, row_sum = _step(
                            s, o, p, row_max, row_sum, q, k_smem, v_smem, k_full, v_full, k_empty, v_empty, pin,
                            scale_log2, last_key, j, step + j, BLOCK_N, STAGES, False, False, GROUP, GROUPS,
                        )  # fmt: skip
                        j += 1
                while j < whole_tiles:
                    s, o, p, row_max, row_sum = _step(
                        s, o, p, row_max, row_sum, q, k_smem, v_smem, k_full, v_full, k_empty, v_empty, pin, scale_log2,
                        last_key, j, step + j, BLOCK_N, STAGES, False, INTEGERS, GROUP, GROUPS,
                    )  # fmt: skip
                    j += 1
                if CAUSAL or not EVEN_N:
                    while j < own_tiles:
                        s, o, p, row_max, row_sum = _step(
                            s, o, p, row_max, row_sum, q, k_smem, v_smem, k_full, v_full, k_empty, v_empty, pin,
                            scale_log2, last_key, j, step + j, BLOCK_N, STAGES, True, False, GROUP, GROUPS,
                        )  # fmt: skip
                        j += 1

                # the last P V overlaps with no Q K^T; tiles that only other warpgroups need are released unread
                _wait_full(v_full, step + own_tiles - 1, STAGES)
                o = tlx.async_dot(p.to(element), v_smem[(step + own_tiles - 1) % STAGES], o)
                o = tlx.async_dot_wait(0, o)
                tlx.barrier_arrive(v_empty[(step + own_tiles - 1) % STAGES], 1)
                while j < key_tiles:
                    _wait_full(k_full, step + j, STAGES)
                    tlx.barrier_arrive(k_empty[(step + j) % STAGES], 1)
                    _wait_full(v_full, step + j, STAGES)
                    tlx.barrier_arrive(v_empty[(step + j) % STAGES], 1)
                    j += 1
                step += key_tiles

                # epilogue: a row that sees no key has row_sum 0, so O = 0 and LSE = -inf
                total = tl.sum(row_sum, 1)
                divisor = tl.where(total == 0, 1.0, total)
                tlx.local_store(q, (o * (1.0 / divisor)[:, None]).to(element))
                tlx.fence_async_shared()
                tlx.async_descriptor_store(o_desc, q, [batch_head // heads, batch_head % heads, first_row, 0])
                lse = tl.where(total == 0, float("-inf"), (row_max + tl.math.log2(divisor)) * LN_2)
                tl.store(lse_ptr + batch_head.to(tl.int64) * seq_q + row, lse, row < seq_q)
                if Q_BUFFERS == 1:
                    _hand_back(q_empty, tile, Q_BUFFERS)
                tile += 1
                _wait_full(slot_full, tile, 2)
                number = tl.max(tlx.local_load(slots[tile % 2]), 0)
                tlx.barrier_arrive(slot_empty[tile % 2], 1)
            tlx.async_descriptor_store_wait(0)

        with tlx.async_task(num_warps=4, registers=24):
            tile = 0
            step = 0
            number = tl.program_id(0)
            tlx.local_store(slots[0], tl.full((1,), number, tl.int32))
            tlx.barrier_arrive(slot_full[0], 1)
            while number < tiles:
                batch_head, q_tile = _head_by_head(number, batches * heads, q_tiles, seq_kv, HEAD_DIM, CAUSAL)
                q_start = q_tile * BLOCK_M
                batch, head = batch_head // heads, batch_head % heads
                _, key_tiles = _key_tiles(q_start, BLOCK_M, seq_q, seq_kv, BLOCK_N, CAUSAL)
                at = tile % Q_BUFFERS
                _wait_empty(q_empty, tile, Q_BUFFERS)
                tlx.barrier_expect_bytes(q_full[at], GROUPS * ROWS * HEAD_DIM * 2)
                for part in tl.static_range(GROUPS):
                    rows = q_start + part * ROWS
                    tlx.async_descriptor_load(
                        q_desc, q_smem[at * GROUPS + part], [batch, head, rows, 0], q_full[at]
                    )  # fmt: skip
                j = 0
                while j < key_tiles:
                    _wait_empty(k_empty, step + j, STAGES)
                    _load(k_desc, k_smem, k_full, step + j, batch, head // group, j * BLOCK_N, STAGES, KV_BYTES)
                    if j > 0:
                        _wait_empty(v_empty, step + j - 1, STAGES)
                        _load(
                            v_desc, v_smem, v_full, step + j - 1, batch, head // group, (j - 1) * BLOCK_N, STAGES,
                            KV_BYTES,
                        )  # fmt: skip
                    j += 1
                # the program that takes the last number resets the counter to zero
                taken = tl.atomic_add(counter, 1, sem="relaxed")
                if taken == tiles - 1:
                    tl.store(counter, 0)
                number = taken + tl.num_programs(0)
                tile += 1
                _wait_empty(slot_empty, tile, 2)
                tlx.local_store(slots[tile % 2], tl.full((1,), number, tl.int32))
                tlx.barrier_arrive(slot_full[tile % 2], 1)
                _wait_empty(v_empty, step + key_tiles - 1, STAGES)
                _load(
                    v_desc, v_smem, v_full, step + key_tiles - 1, batch, head // group, (key_tiles - 1) * BLOCK_N,
                    STAGES, KV_BYTES,
                )  # fmt: skip
                step += key_tiles


class TileTwin(Twin):
    """A twin whose kernel also takes STAGES and Q_BUFFERS, and whose descriptors of Q and O cover one warpgroup's
    rows. The default task is one warpgroup, whatever the tile.

    Q_BUFFERS is 2 if two buffers of Q fit beside the rings of K and V, else 1.
    """

    def at(self, tile):
        def refine(arguments):
            rows = {"q": ROWS.value, "k": tile.block_n, "v": tile.block_n, "o": ROWS.value}
            described = describe({**arguments, **rows}, {name: name for name in rows})
            head_dim = arguments["HEAD_DIM"]
            bytes_of_two = 2 * head_dim * (2 * tile.block_m + 2 * tile.stages * tile.block_n)
            return {
                **described,
                "STAGES": tile.stages,
                "Q_BUFFERS": 2 if bytes_of_two + 1024 <= SHARED_MEMORY_BYTES else 1,
            }

        return Twin(self.kernel, self.options, self.grid, refine)

    def specialize(self, problem, strides, tile, arch):
        return self.at(tile).specialize(problem, strides, tile, arch)

    def launch(self, *tensors, tile, **rest):
        return self.at(tile).launch(*tensors, tile=tile, **rest)


twin = TileTwin(flagship, lambda tile: {**options(tile, num_stages=1), "num_warps": 4}, persistent_grid)
