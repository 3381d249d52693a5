"""What the Gluon kernels of attention's backward pass share: descriptors, the order of dQ's sums, and the warps that
load and that reduce.

A tile has 64 queries with head_dim 128, and 128 with head_dim 64: 8192 numbers of dQ. Two warpgroups share them out by
columns, or by rows if these are 128. The sums of a tile lie in the order of their registers, so that a thread stores 16
bytes at a time: for each warpgroup, four numbers of each thread, then the next four of each, and so on.
`convert_dq_tiles` puts them into rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel, make_backend
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language._core import builtin
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
from triton.runtime.jit import create_function_from_signature

from triton_kernels.attention import gluon_warpgroups as wg
from triton_kernels.attention.specialization import COUNTER_BYTES, Specialization, counters, multiprocessors
from triton_kernels.attention.specialization import options as plain_options
from triton_kernels.attention_backward import specialization
from triton_kernels.attention_backward.row_sums import row_sums

TILE = gl.constexpr(8192)
"""Numbers of dQ of a tile of queries."""

TILE_ROW = gl.constexpr(256)
"""A tile of dQ's sums is added by TMA as a matrix with rows of so many numbers, the longest that a box can have."""

SECTION_BYTES = gl.constexpr(16 << 20)
"""Of dQ's sums of the heads that are at work: L2 holds them."""

NUMBERS_LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
TILE_LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
SCORES_LAYOUT = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2))


@gluon.constexpr_function
def accumulator(rows, columns):
    """The register layout of a product of two warpgroups, which share out the rows, or the columns of 64 rows."""
    groups = [8, 1] if rows == 128 else [4, 2]
    return gl.NVMMADistributedLayout([3, 0], groups, [16, columns * groups[0] // 8, 16])


@gluon.constexpr_function
def in_register_order(rows):
    """A tile of dQ in shared memory: bit by bit of an address in numbers, the (row, column) that it adds. Two columns
    and two rows of a thread, its place among the four that share a row, its row, its warp's rows, then eight columns at
    a time, and the warpgroup."""
    thread = [[0, 1], [8, 0], [0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]
    return gl.SharedLinearLayout(
        [*thread, [16, 0], [32, 0], [0, 8], [0, 16], [0, 32], [64, 0] if rows == 128 else [0, 64]]
    )


@builtin
def _add_async(desc: Any, coord: Any, src: Any, _semantic: Any = None) -> None:
    """What tma.async_atomic_add is from Triton 3.8 on; before, Gluon's builder has it, and its language does not."""
    places = _semantic._convert_to_ir_values(coord, require_i64=False)
    _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, places, src.handle)


add_async = getattr(tma, "async_atomic_add", None) or _add_async
"""Adds a tile in shared memory to global memory by TMA."""


class Buffers(NamedTuple):
    """What the warps of a block share in shared memory."""

    k_smem: gl.shared_memory_descriptor
    v_smem: gl.shared_memory_descriptor
    q_smem: gl.shared_memory_descriptor
    do_smem: gl.shared_memory_descriptor
    lse_smem: gl.shared_memory_descriptor
    dots_smem: gl.shared_memory_descriptor
    ds_smem: gl.shared_memory_descriptor
    dq_smem: gl.shared_memory_descriptor
    kv_full: gl.shared_memory_descriptor
    q_full: gl.shared_memory_descriptor
    do_full: gl.shared_memory_descriptor
    done: gl.shared_memory_descriptor
    dq_empty: gl.shared_memory_descriptor


class Sizes(NamedTuple):
    """The block's tiles of queries: those from row `first` on of the heads from `head` to `last_head`, without it."""

    batch: gl.tensor
    head_kv: gl.tensor
    head: gl.tensor
    last_head: gl.tensor
    heads: gl.tensor
    kv_start: gl.tensor
    first: gl.tensor
    seq_q: gl.tensor
    seq_kv: gl.tensor
    scratch_rows: gl.tensor


@gluon.jit
def sizes(
    number, heads, heads_kv, group, seq_q, seq_kv, scratch_rows,
    BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    """Of block `number`: key tile after key tile of a head of K and V, so that with a causal mask the longest are
    first."""
    key_tiles = (seq_kv + BLOCK_N - 1) // BLOCK_N
    batch_head = number // key_tiles
    head_kv = batch_head % heads_kv
    kv_start = number % key_tiles * BLOCK_N
    first = 0
    if CAUSAL:
        first = gl.maximum(kv_start + seq_q - seq_kv, 0) // BLOCK_M * BLOCK_M
    return Sizes(
        batch_head // heads_kv, head_kv, head_kv * group, (head_kv + 1) * group, heads, kv_start, first, seq_q, seq_kv,
        scratch_rows,
    )  # fmt: skip


@gluon.jit
def longest_first(number, blocks, seq_q, seq_kv, HEAD_DIM: gl.constexpr, BLOCK_N: gl.constexpr, CAUSAL: gl.constexpr):
    """The block that comes as number `number` where heads go in sections, and in a section the first keys of all heads
    come first: with a causal mask the most queries see them. Without a mask a section is a head."""
    key_tiles = (seq_kv + BLOCK_N - 1) // BLOCK_N
    section = 1
    if CAUSAL:
        section = gl.maximum(SECTION_BYTES // 4 // HEAD_DIM // seq_q, 1)
    begin = number // (key_tiles * section) * section
    place = number - begin * key_tiles
    here = gl.minimum(section, blocks // key_tiles - begin)  # heads in this section
    return (begin + place % here) * key_tiles + place // here


@gluon.jit
def allocate(k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc, dq_desc, STAGES: gl.constexpr):
    """Allocates the buffers and initializes their barriers."""
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[2]
    BLOCK_N: gl.constexpr = k_desc.block_type.shape[2]
    lse_smem = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_M], lse_desc.layout)
    dots_smem = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK_M], dots_desc.layout)
    ds_smem = gl.allocate_shared_memory(q_desc.dtype, [BLOCK_N, BLOCK_M], SCORES_LAYOUT)
    dq_smem = gl.allocate_shared_memory(gl.float32, [TILE // TILE_ROW, TILE_ROW], dq_desc.layout)
    k_smem, v_smem = wg.buffers(k_desc, 1), wg.buffers(v_desc, 1)
    q_smem, do_smem = wg.buffers(q_desc, STAGES), wg.buffers(do_desc, STAGES)
    kv_full = wg.barriers(1, 1)
    q_full, do_full = wg.barriers(STAGES, 1), wg.barriers(STAGES, 1)
    done, dq_empty = wg.barriers(STAGES, 1), wg.barriers(1, 1)
    fence_async_shared()
    return Buffers(
        k_smem, v_smem, q_smem, do_smem, lse_smem, dots_smem, ds_smem, dq_smem, kv_full, q_full, do_full, done,
        dq_empty,
    )  # fmt: skip


@gluon.jit
def _load_queries(desc, smem, numbers_desc, numbers_smem, full, step, batch, head, start, place):
    """Issues the load of Q or dO and of LSE or D of a tile into the buffers of `step`."""
    at = step % smem.shape[0]
    mbarrier.expect(full.index(at), desc.block_type.nbytes + numbers_desc.block_type.nbytes)
    wg.load_async(desc, [batch, head, start, 0], full.index(at), smem.index(at))
    wg.load_async(numbers_desc, [place], full.index(at), numbers_smem.index(at))


@gluon.jit
def produce_block(loads, sizes, step):
    """Loads K and V of a block whose first step is `step`, and then Q and dO of every tile, with their LSE and D, as
    soon as their buffers are empty. Returns the next block's first step."""
    buffers, k_desc, v_desc, q_desc, do_desc, lse_desc, dots_desc = loads
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[2]
    full = buffers.kv_full.index(0)
    mbarrier.expect(full, k_desc.block_type.nbytes + v_desc.block_type.nbytes)
    wg.load_async(k_desc, [sizes.batch, sizes.head_kv, sizes.kv_start, 0], full, buffers.k_smem.index(0))
    wg.load_async(v_desc, [sizes.batch, sizes.head_kv, sizes.kv_start, 0], full, buffers.v_smem.index(0))
    for head in range(sizes.head, sizes.last_head):
        numbers = (sizes.batch * sizes.heads + head) * sizes.scratch_rows
        for start in range(sizes.first, sizes.seq_q, BLOCK_M):
            wg.wait_empty(buffers.done, step)
            _load_queries(
                q_desc, buffers.q_smem, lse_desc, buffers.lse_smem, buffers.q_full, step, sizes.batch, head, start,
                numbers + start,
            )  # fmt: skip
            _load_queries(
                do_desc, buffers.do_smem, dots_desc, buffers.dots_smem, buffers.do_full, step, sizes.batch, head,
                start, numbers + start,
            )  # fmt: skip
            step += 1
    return step


@gluon.jit
def reduce_block(sums, sizes, step):
    """Adds dQ of every tile of a block whose first step is `step`; returns the next block's first step."""
    buffers, dq_desc = sums
    BLOCK_M: gl.constexpr = buffers.q_smem.shape[3]
    for head in range(sizes.head, sizes.last_head):
        numbers = (sizes.batch * sizes.heads + head) * sizes.scratch_rows
        for start in range(sizes.first, sizes.seq_q, BLOCK_M):
            wg.wait_full(buffers.done, step)
            row = (numbers + start) // BLOCK_M * (TILE // TILE_ROW)
            add_async(dq_desc, [row, 0], buffers.dq_smem)
            tma.store_wait(0)
            wg.arrive(buffers.dq_empty, step)
            step += 1
    return step


@gluon.jit
def produce(loads, sizes):
    step = 0
    produce_block(loads, sizes, step)


@gluon.jit
def reduce(sums, sizes):
    step = 0
    reduce_block(sums, sizes, step)


@gluon.jit
def take(queue, block, WARPS: gl.constexpr):
    """Called by a partition of so many warps: takes the number of the program's block `block` from the queue."""
    slots, full, empty = queue
    wg.wait_full(full, block)
    number = gl.max(slots.index(block % 2).load(wg.one_number(WARPS)), 0)
    wg.arrive(empty, block)
    return number


@gluon.jit
def put_dq(buffers, dq, step):
    """Stores a tile of dQ for the warp that reduces, once that has read the last one."""
    wg.wait_empty(buffers.dq_empty, step)
    ordered: gl.constexpr = in_register_order(dq.shape[0])
    buffers.dq_smem._reinterpret(gl.float32, dq.shape, ordered).store(dq)


@gluon.jit
def store_keys(gradient, ptr, stride_row, first_key, seq_kv):
    """Stores the rows of dK or dV from `first_key` on, those that exist."""
    layout: gl.constexpr = gradient.type.layout
    key = first_key + gl.arange(0, gradient.shape[0], gl.SliceLayout(1, layout))
    dim = gl.arange(0, gradient.shape[1], gl.SliceLayout(0, layout))
    rows = ptr + key[:, None].to(gl.int64) * stride_row + dim[None, :]
    gl.store(rows, gradient.to(ptr.dtype.element_ty), (key < seq_kv)[:, None])


@triton.jit
def convert_dq_tiles(
    dq_ptr, dq_sums, scale, heads, seq_q, scratch_rows, dq_stride_batch, dq_stride_head, dq_stride_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """dQ = scale times its sums, of a warpgroup's half of a tile."""
    halves = tl.cdiv(seq_q, BLOCK_M) * 2
    batch_head = (tl.program_id(0) // halves).to(tl.int64)
    half = tl.program_id(0) % halves
    begin = batch_head * scratch_rows * HEAD_DIM + half.to(tl.int64) * 4096
    numbers = tl.load(dq_sums + begin + tl.arange(0, 4096)) * scale
    # Eight columns at a time, warp, row, the four threads of a row, two rows, two columns.
    pieces = numbers.to(dq_ptr.dtype.element_ty).reshape(8, 4, 8, 4, 2, 2)
    values = pieces.permute(1, 4, 2, 0, 3, 5).reshape(64, 64)
    row = half // 2 * BLOCK_M + tl.arange(0, 64)
    col = tl.arange(0, 64)
    if BLOCK_M == 64:
        col += half % 2 * 64
    else:
        row += half % 2 * 64
    dq_rows = dq_ptr + batch_head // heads * dq_stride_batch + batch_head % heads * dq_stride_head
    tl.store(dq_rows + row.to(tl.int64)[:, None] * dq_stride_row + col[None, :], values, (row < seq_q)[:, None])


def options(tile: Any) -> dict[str, Any]:
    """Compile options of a kernel with roles: its first partition is the warpgroups that multiply."""
    return plain_options(tile, num_stages=1)


@dataclass(frozen=True)
class Twin(specialization.Twin):
    """A kernel and how it is launched. Beside what core Triton's twins can ask for, `lse_desc`, `dots_desc` and
    `dq_desc` are descriptors of LSE, D and dQ's sums.

    With a `counter` (int32, zero at the start and at the end) there are no more programs than multiprocessors."""

    def specialize(self, problem: Any, strides: Any, tile: Any, arch: str) -> Specialization:
        """As of a core Triton twin."""
        target = GPUTarget("cuda", int(re.sub(r"\D", "", arch)), 32)
        backend = make_backend(target)
        compile_options, known = options(tile), vars(backend.parse_options({}))
        if unknown := sorted(set(compile_options) - set(known)):
            raise ValueError(
                f"tile.extra: got {unknown}, expected options of Triton {triton.__version__}: {sorted(known)}"
            )
        tensors = specialization.meta_tensors(problem)
        scratch = specialization.scratch(tensors["q"], None)
        offered = specialization.arguments(tensors, scratch, 1.0, problem.causal, tile)
        offered |= {"counter": counters(None), "batches": problem.batch}
        function = self.kernel
        bind = create_function_from_signature(function.signature, function.params, backend)
        bound, kinds, extra = bind(**_named(function, offered, tile), **compile_options, debug=False)
        parsed, signature, constexprs, attrs = function._pack_args(backend, extra, bound, kinds, extra)
        return Specialization(function, signature, constexprs, attrs, parsed, self.programs(tensors["k"], tile), target)

    def launch(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, do: torch.Tensor, lse: torch.Tensor,
        dq: torch.Tensor, dk: torch.Tensor, dv: torch.Tensor,
        *, scale: float, causal: bool, tile: Any, workspace: torch.Tensor,
    ) -> CompiledKernel:  # fmt: skip
        """As of a core Triton twin."""
        tensors = {"q": q, "k": k, "v": v, "o": o, "do": do, "lse": lse, "dq": dq, "dk": dk, "dv": dv}
        scratch = specialization.scratch(q, workspace)
        offered = specialization.arguments(tensors, scratch, scale, causal, tile)
        behind = workspace[4 * sum(part.numel() for part in scratch.values()) :]
        offered |= {"counter": counters(behind[:COUNTER_BYTES]), "batches": q.shape[0]}
        batch_heads = q.shape[0] * q.shape[1]
        programs = batch_heads * offered["scratch_rows"] // specialization.ROWS
        row_sums[(programs,)](**_named(row_sums, {**offered, "CLEARS": True}, tile), num_warps=4)
        main = self.kernel[self.programs(k, tile)](**_named(self.kernel, offered, tile), **options(tile))
        halves = batch_heads * triton.cdiv(q.shape[2], tile.block_m) * 2
        convert_dq_tiles[(halves,)](**_named(convert_dq_tiles, offered, tile), num_warps=4)
        return main

    def workspace_bytes(self, problem: Any) -> int:
        """Bytes of workspace behind the scratch memory."""
        return COUNTER_BYTES if "counter" in self.kernel.arg_names else 0

    def programs(self, k: torch.Tensor, tile: Any) -> tuple[int]:
        """One for each tile of keys of each head, or fewer, which stay."""
        blocks = triton.cdiv(k.shape[2], tile.block_n) * k.shape[0] * k.shape[1]
        return (min(blocks, multiprocessors(k)) if "counter" in self.kernel.arg_names else blocks,)


def _named(function: Any, offered: Mapping[str, Any], tile: Any) -> dict[str, Any]:
    """The arguments that the kernel's parameters name; makes the descriptors that they name."""
    given = {**offered, "STAGES": tile.stages}
    rows = {"q_desc": tile.block_m, "do_desc": tile.block_m, "k_desc": tile.block_n, "v_desc": tile.block_n}
    for name in function.arg_names:
        if name in rows:
            tensor = given[f"{name.removesuffix('_desc')}_ptr"]
            # A dimension of size 1 has any stride, but a descriptor wants a multiple of 16 bytes.
            strides = [
                step if size > 1 else tensor.shape[3] for size, step in zip(tensor.shape, tensor.stride(), strict=True)
            ]
            block = [1, 1, rows[name], tensor.shape[3]]
            given[name] = TensorDescriptor(tensor, list(tensor.shape), [*strides[:3], 1], block, wg.LAYOUT)
    for name, numbers in (("lse_desc", given["lse_log2"]), ("dots_desc", given["dots"])):
        given[name] = TensorDescriptor(numbers, [numbers.numel()], [1], [tile.block_m], NUMBERS_LAYOUT)
    sums, row = given["dq_sums"], TILE_ROW.value
    block = [TILE.value // row, row]
    given["dq_desc"] = TensorDescriptor(sums, [sums.numel() // row, row], [row, 1], block, TILE_LAYOUT)
    return {name: given[name] for name in function.arg_names}
