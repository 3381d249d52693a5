"""CuTe DSL: named barriers, code that only some warps run, and register counts for each role."""

import re

import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor

FORMS = ("plain", "barriers", "roles", "registers")


@cute.kernel
def work(x: cute.Tensor, form: cutlass.Constexpr):
    thread = cute.arch.thread_idx()[0]
    if cutlass.const_expr(form == "plain"):
        x[thread] = x[thread] * 2.0
        cute.arch.sync_threads()
    elif thread < 128:  # a producer warpgroup
        if cutlass.const_expr(form == "registers"):
            cute.arch.setmaxregister_decrease(40)
        if cutlass.const_expr(form == "barriers"):
            cute.arch.barrier_arrive(barrier_id=9, number_of_threads=256)
        x[thread] = x[thread] * 2.0
    else:
        if cutlass.const_expr(form == "registers"):
            cute.arch.setmaxregister_increase(232)
        if cutlass.const_expr(form == "barriers"):
            cute.arch.barrier(barrier_id=9, number_of_threads=256)
        x[thread] = 1.0


@cute.jit
def launched(x: cute.Tensor, form: cutlass.Constexpr):
    # Without a bound of the blocks ptxas drops setmaxnreg: it knows no number of registers to begin with.
    work(x, form).launch(grid=[1, 1, 1], block=[256, 1, 1], min_blocks_per_mp=1)


def build(form):
    x = make_fake_compact_tensor(cutlass.Float32, (256,), stride_order=(0,))
    made = cute.compile(launched, x, form, options="--gpu-arch=sm_90a --keep-ptx --keep-cubin")
    return {"ptx": made.__ptx__, "cubin": made.__cubin__}


if __name__ == "__main__":
    for form in FORMS:
        print(form, *re.findall(r"setmaxnreg\S+\s+\d+|\bbar\S+\s+\d+, \d+|@%p\d+ bra", build(form)["ptx"]))
