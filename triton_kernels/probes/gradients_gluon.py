"""Gluon, a step of attention's backward pass: P taken from registers, a product in flight under exponentials."""

import re

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

FORMS = ("registers", "shared", "waits at once")


@gluon.jit
def gradients(dv_ptr, steps, FORM: gl.constexpr):
    """S^T and dP^T of 64 keys by 64 queries, and dV; Q, K, V and dO are whatever lies in shared memory."""
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    k_smem = gl.allocate_shared_memory(gl.bfloat16, [64, 64], shared)
    q_smem = gl.allocate_shared_memory(gl.bfloat16, [64, 64], shared)
    p_smem = gl.allocate_shared_memory(gl.bfloat16, [64, 64], shared)
    zero = gl.zeros([64, 64], gl.float32, layout)
    dv = zero
    for _ in range(steps):
        s = warpgroup_mma(k_smem, q_smem.permute((1, 0)), zero, use_acc=False, is_async=True)
        dp = warpgroup_mma(q_smem, q_smem.permute((1, 0)), zero, use_acc=False, is_async=True)
        if FORM == "waits at once":
            s, dp = warpgroup_mma_wait(0, deps=[s, dp])
        else:  # dP is in flight under the exponentials
            s = warpgroup_mma_wait(1, deps=[s])
        p = gl.exp2(s)
        dp = warpgroup_mma_wait(0, deps=[dp])
        ds = (p * dp).to(gl.bfloat16)
        if FORM == "shared":
            p_smem.store(ds)
            fence_async_shared()
            dv = warpgroup_mma(p_smem, q_smem, dv, is_async=True)
        else:
            dv = warpgroup_mma(gl.convert_layout(ds, operand), q_smem, dv, is_async=True)
        dv = warpgroup_mma_wait(0, deps=[dv])
    row, column = gl.arange(0, 64, gl.SliceLayout(1, layout)), gl.arange(0, 64, gl.SliceLayout(0, layout))
    gl.store(dv_ptr + row[:, None] * 64 + column[None, :], dv)


def build(form):
    source = GluonASTSource(gradients, {"dv_ptr": "*fp32", "steps": "i32", "FORM": "constexpr"}, {"FORM": form})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for form in FORMS:
        order = r"wgmma\.mma_async\S* \{[^}\n]*\}, ?\{|wait_group\S+\s+\d|\bex2(?=\.approx)"
        print(form, *re.findall(order, build(form).asm["ptx"]))
