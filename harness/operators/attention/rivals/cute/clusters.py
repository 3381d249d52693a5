"""CuTe DSL: a launch of a cluster of two blocks, and a TMA load that writes into both."""

import re

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_compact_tensor

FORMS = ("one block", "two blocks")


@cute.kernel
def load(atom: cute.CopyAtom, x: cute.Tensor, y: cute.Tensor, blocks: cutlass.Constexpr):
    memory = cutlass.memory.SmemAllocator()
    tile = memory.allocate_tensor(cutlass.Float16, cute.make_layout((64, 64), stride=(64, 1)), 1024)
    full = memory.allocate_array(cutlass.Int64)
    thread, block = cute.arch.thread_idx()[0], cute.arch.block_idx_in_cluster()
    cute.arch.mbarrier_init(full, 1)
    cute.arch.cluster_arrive()
    cute.arch.cluster_wait()
    shared, global_ = cpasync.tma_partition(
        atom, block, cute.make_layout(blocks), cute.group_modes(tile, 0, 2), cute.group_modes(x, 0, 2)
    )
    cute.arch.mbarrier_arrive_and_expect_tx(full, 64 * 64 * 2)
    if cutlass.const_expr(blocks == 2):
        cute.copy(atom, global_, shared, tma_bar_ptr=full, mcast_mask=cutlass.Int16(3))
    else:
        cute.copy(atom, global_, shared, tma_bar_ptr=full)
    cute.arch.mbarrier_wait(full, 0)
    y[thread] = tile[thread % 64, thread // 64]


@cute.jit
def launched(x: cute.Tensor, y: cute.Tensor, blocks: cutlass.Constexpr):
    op = cpasync.CopyBulkTensorTileG2SMulticastOp() if blocks == 2 else cpasync.CopyBulkTensorTileG2SOp()
    layout = cute.make_layout((64, 64), stride=(64, 1))
    atom, box = cpasync.make_tiled_tma_atom(op, x, layout, (64, 64), blocks)
    load(atom, box, y, blocks).launch(grid=[blocks, 1, 1], block=[128, 1, 1], cluster=[blocks, 1, 1])


def build(form):
    x = make_fake_compact_tensor(cutlass.Float16, (64, 64), stride_order=(1, 0), assumed_align=16)
    y = make_fake_compact_tensor(cutlass.Float16, (128,), stride_order=(0,))
    made = cute.compile(
        launched, x, y, 2 if form == "two blocks" else 1, options="--gpu-arch=sm_90a --keep-ptx --keep-cubin"
    )
    return {"ptx": made.__ptx__, "cubin": made.__cubin__}


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"cp\.async\.bulk\.tensor\S+|barrier\.cluster\S+", build(form)["ptx"]))
