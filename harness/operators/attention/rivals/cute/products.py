"""CuTe DSL: the swizzle of an operand, the width of a wgmma, and how many products a wait leaves in flight."""

import re

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, warpgroup
from cutlass.cute.nvgpu.warpgroup import OperandSource, SmemLayoutAtomKind
from cutlass.cute.runtime import make_fake_compact_tensor

FORMS = ("plain", "unswizzled", "176", "wait one")


@cute.kernel
def multiply(y: cute.Tensor, form: cutlass.Constexpr):
    columns = 176 if form == "176" else 128
    kind = SmemLayoutAtomKind.K_INTER if form == "unswizzled" else SmemLayoutAtomKind.K_SW128
    atom = warpgroup.make_smem_layout_atom(kind, cutlass.Float16)
    op = (cutlass.Float16, cutlass.Float32, (64, columns, 16), OperandSource.SMEM)
    mma = cute.make_tiled_mma(warpgroup.MmaF16BF16Op(*op, OperandMajorMode.K, OperandMajorMode.K))
    memory = cutlass.memory.SmemAllocator()
    thread = cute.arch.thread_idx()[0]
    part = mma.get_slice(thread)
    a, b = (
        make(split(memory.allocate_tensor(cutlass.Float16, layout.outer, 1024, layout.inner)))
        for make, split, rows in (
            (mma.make_fragment_A, part.partition_A, 64),
            (mma.make_fragment_B, part.partition_B, columns),
        )
        for layout in (cute.tile_to_shape(atom, (rows, 64), (0, 1)),)
    )
    one, two = (cute.make_rmem_tensor(mma.partition_shape_C((64, columns)), cutlass.Float32) for _ in range(2))
    for c in (one, two):
        c.fill(0.0)
        warpgroup.fence()
        for k in cutlass.range_constexpr(4):
            cute.gemm(mma, c, a[None, None, k], b[None, None, k], c)
        warpgroup.commit_group()
    warpgroup.wait_group(1 if form == "wait one" else 0)
    one.store(cute.math.exp2(one.load()))
    warpgroup.wait_group(0)
    y[thread] = (one.load() + two.load()).reduce(cute.ReductionOp.ADD, 0.0, 0)


@cute.jit
def launched(y: cute.Tensor, form: cutlass.Constexpr):
    multiply(y, form).launch(grid=[1, 1, 1], block=[128, 1, 1])


def build(form):
    y = make_fake_compact_tensor(cutlass.Float32, (128,), stride_order=(0,))
    made = cute.compile(launched, y, form, options="--gpu-arch=sm_90a --keep-ptx --keep-cubin")
    return {"ptx": made.__ptx__, "cubin": made.__cubin__}


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"mma_async\.\S+|wait_group\S+\s+\d|\bex2(?=\.)", build(form)["ptx"]))
