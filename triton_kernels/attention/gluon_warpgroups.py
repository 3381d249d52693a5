"""What the Gluon kernels with warpgroups share: descriptors, rings of buffers with barriers, and the order of tiles.

Kernels take load_async, store_async and block_barrier from here too; gluon_names has what each Triton calls them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from triton_kernels.attention import specialization
from triton_kernels.gluon_names import block_barrier, load_async, store_async  # noqa: F401

ROWS = gl.constexpr(64)
"""Query rows of a warpgroup: the 64 of one wgmma."""

PIECES = gl.constexpr(8)
"""Partial sums of a row, one for each column of an mma fragment; each lane holds two of them."""

SHARED_MEMORY_BYTES = 227 * 1024
"""Bytes of shared memory that a block can request on compute capability 9.0."""

LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=4)


@dataclass(frozen=True)
class Twin(specialization.Twin):
    """A `specialization.Twin` whose kernel may also take STAGES and Q_BUFFERS.

    Q_BUFFERS is 2 if two buffers of Q fit beside the rings of K and V, else 1. The descriptors carry the shared-memory
    layout: slabs of 64 columns with the 128-byte swizzle, as wgmma reads them. `query_rows`: rows of a tile of Q and O
    in a descriptor; None means BLOCK_M.
    """

    query_rows: int | None = ROWS.value

    def specialize(
        self, problem: Any, strides: specialization.Strides | None, tile: Any, arch: str
    ) -> specialization.Specialization:
        return self.at(tile).specialize(problem, strides, tile, arch)

    def launch(self, *tensors: Any, tile: Any, **rest: Any) -> Any:
        return self.at(tile).launch(*tensors, tile=tile, **rest)

    def at(self, tile: Any) -> specialization.Twin:
        """Returns the plain twin for one tile."""

        def refine(arguments: dict[str, Any]) -> dict[str, Any]:
            query_rows = self.query_rows or tile.block_m
            rows = {"q": query_rows, "k": tile.block_n, "v": tile.block_n, "o": query_rows}
            names = [name for name in rows if f"{name}_desc" in self.kernel.arg_names]
            refined = specialization.describe({**arguments, **rows}, {name: name for name in names})
            for name in names:
                plain = refined[f"{name}_desc"]
                refined[f"{name}_desc"] = TensorDescriptor(
                    plain.base, plain.shape, plain.strides, plain.block_shape, LAYOUT
                )
            elements = arguments["HEAD_DIM"] * (2 * tile.block_m + 2 * tile.stages * tile.block_n)
            buffers = 2 if 2 * elements + 1024 <= SHARED_MEMORY_BYTES else 1
            return {**refined, "STAGES": tile.stages, "Q_BUFFERS": buffers}

        return specialization.Twin(self.kernel, self.options, self.grid, refine)


def options(tile: Any) -> dict[str, Any]:
    """Compile options of a kernel with roles: its first partition is one warpgroup, whatever the tile."""
    return {**specialization.options(tile, num_stages=1), "num_warps": 4}


@gluon.constexpr_function
def accumulator(columns, warps=4):
    """The register layout of a product: a warpgroup has 64 rows."""
    return gl.NVMMADistributedLayout([3, 0], [warps, 1], [16, columns, 16])


@gluon.constexpr_function
def carried(element, head_dim, block_n, groups):
    """The dtype in which the loop carries P.

    fp32 if P fits into the registers beside O and the next scores (160 registers a thread with three warpgroups, 240
    with fewer), otherwise the 16-bit element type, whose pairs the compiler unpacks and packs again.
    """
    return gl.float32 if head_dim + 2 * block_n <= (256 if groups == 3 else 384) else element


@gluon.constexpr_function
def one_number(warps):
    """The layout of a tensor with one element, which every thread holds."""
    return gl.BlockedLayout([1], [32], [warps], [0])


@gluon.jit
def buffers(desc, NUMBER: gl.constexpr):
    """Allocates shared memory for NUMBER tiles of a descriptor."""
    rows: gl.constexpr = desc.block_type.shape[2]
    columns: gl.constexpr = desc.block_type.shape[3]
    return gl.allocate_shared_memory(desc.dtype, [NUMBER, 1, 1, rows, columns], desc.layout)


@gluon.jit
def barriers(NUMBER: gl.constexpr, ARRIVALS: gl.constexpr):
    """Allocates NUMBER mbarriers; a phase completes after ARRIVALS arrivals."""
    ring = gl.allocate_shared_memory(gl.int64, [NUMBER, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(NUMBER):
        mbarrier.init(ring.index(i), count=ARRIVALS)
    return ring


@gluon.jit
def numbers(GROUPS: gl.constexpr, dtype: gl.constexpr):
    """Allocates shared memory for one number for each of the 64 rows of GROUPS warpgroups."""
    return gl.allocate_shared_memory(dtype, [GROUPS, ROWS], gl.SwizzledSharedLayout(1, 1, 1, [0]))


@gluon.jit
def wait_full(ring, step):
    """Waits until the buffer of `step` is filled; steps count from 0 over all uses of the ring."""
    mbarrier.wait(ring.index(step % ring.shape[0]), (step // ring.shape[0]) & 1)


@gluon.jit
def wait_empty(ring, step):
    """Waits until the buffer of `step` may be filled; in the first round it returns at once."""
    mbarrier.wait(ring.index(step % ring.shape[0]), ((step // ring.shape[0]) & 1) ^ 1)


@gluon.jit
def arrive(ring, step):
    mbarrier.arrive(ring.index(step % ring.shape[0]), count=1)


@gluon.jit
def wait_turn(turns, turn, GROUP: gl.constexpr):
    """Waits until the warpgroup before has passed its turn on. For the first warpgroup that is the last one's previous
    turn, so its first wait returns at once."""
    mbarrier.wait(turns.index(GROUP), (turn & 1) ^ (0 if GROUP else 1))


@gluon.jit
def pass_turn(turns, GROUP: gl.constexpr):
    mbarrier.arrive(turns.index((GROUP + 1) % turns.shape[0]), count=1)


@gluon.jit
def load(desc, smem, full, step, batch, head, row, pred=True):
    """If pred holds, issues the load of the rows from `row` on into the buffer of `step`; it completes on that buffer's
    barrier."""
    at = step % smem.shape[0]
    mbarrier.expect(full.index(at), desc.block_type.nbytes, pred)
    load_async(desc, [batch, head, row, 0], full.index(at), smem.index(at), pred)


@gluon.jit
def load_rows(desc, smem, full, step, batch, head, row):
    """As `load`, for the 64 rows of each warpgroup: one buffer for each warpgroup, one barrier for all of them."""
    GROUPS: gl.constexpr = smem.shape[0] // full.shape[0]
    at = step % full.shape[0]
    mbarrier.expect(full.index(at), GROUPS * desc.block_type.nbytes)
    for group in gl.static_range(GROUPS):
        load_async(desc, [batch, head, row + group * ROWS, 0], full.index(at), smem.index(at * GROUPS + group))


@gluon.jit
def matrix(smem, step):
    """Views the buffer of `step` as a matrix of rows by columns."""
    return smem.index(step % smem.shape[0]).reshape((smem.shape[3], smem.shape[4]))


@gluon.jit
def key_tiles(first_row, rows, seq_q, seq_kv, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr):
    """For the query rows from first_row on: how many key tiles need no mask, how many some row needs (at least 1)."""
    whole = seq_kv // BLOCK_N
    keys = seq_kv
    if CAUSAL:
        first_last_key = first_row + seq_kv - seq_q
        whole = gl.minimum(gl.maximum(first_last_key + 1, 0) // BLOCK_N, whole)
        keys = gl.minimum(gl.maximum(first_last_key + rows, 0), seq_kv)
    return whole, gl.maximum((keys + BLOCK_N - 1) // BLOCK_N, 1)


@gluon.jit
def longest_first(number, heads_total, q_tiles, seq_kv, HEAD_DIM: gl.constexpr):
    """Returns (batch * heads + head, q_tile) of a tile's number, longest tiles first.

    Heads are taken in sections whose K and V have at most 16 MB, about a quarter of the L2 cache of an H200.
    """
    section_heads = gl.maximum(16 * 2**20 // (HEAD_DIM * 4) // seq_kv, 1)
    first = number // (section_heads * q_tiles) * section_heads
    count = gl.minimum(section_heads, heads_total - first)
    rest = number - first * q_tiles
    return first + rest % count, q_tiles - 1 - rest // count


@gluon.jit
def head_by_head(number, heads_total, q_tiles, seq_kv, HEAD_DIM: gl.constexpr, CAUSAL: gl.constexpr):
    """Returns (batch * heads + head, q_tile) of a tile's number: head after head, the last q_tile of each head first.

    With a causal mask the last heads are taken together, longest tiles first, so that short tiles fill the end. These
    are two tiles for each program, or as many heads as have K and V in 32 MB (about half of the L2 cache of an H200) if
    that is less.
    """
    batch_head = number // q_tiles
    place = number % q_tiles
    if CAUSAL:
        wanted = (2 * gl.num_programs(0) + q_tiles - 1) // q_tiles
        fitting = gl.maximum(32 * 2**20 // (HEAD_DIM * 4) // seq_kv, 1)
        last_heads = gl.minimum(gl.minimum(wanted, fitting), heads_total)
        rest = number - (heads_total - last_heads) * q_tiles
        if rest >= 0:
            batch_head = heads_total - last_heads + rest % last_heads
            place = rest // last_heads
    return batch_head, q_tiles - 1 - place


@gluon.jit
def take_number(counter, numbers):
    """Returns the number of the program's next tile. Whichever takes the last number resets the counter to zero."""
    taken = gl.atomic_add(counter, 1, sem="relaxed")
    if taken == numbers - 1:
        gl.store(counter, 0)
    return taken + gl.num_programs(0)


@gluon.jit
def tile_queue(GROUPS: gl.constexpr):
    """Allocates a queue of two slots, by which one warp passes its program's tile numbers to GROUPS warpgroups."""
    slots = gl.allocate_shared_memory(gl.int32, [2, 1], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    return slots, barriers(2, 1), barriers(2, GROUPS)


@gluon.jit
def put(queue, tile, number):
    """Called by one warp: puts the number of the program's tile `tile` (counted from 0) into the queue."""
    slots, full, empty = queue
    wait_empty(empty, tile)
    slots.index(tile % 2).store(gl.full((1,), number, gl.int32, one_number(1)))
    arrive(full, tile)


@gluon.jit
def take(queue, tile):
    """Called by a warpgroup: returns the number of the program's tile `tile`."""
    slots, full, empty = queue
    wait_full(full, tile)
    number = gl.max(slots.index(tile % 2).load(one_number(4)), 0)
    arrive(empty, tile)
    return number
