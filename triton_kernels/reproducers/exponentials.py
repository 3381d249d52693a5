"""ptxas moves exponentials out from under a wgmma: it places wgmma.wait_group 0 above them.

    python exponentials.py         # needs no GPU

The source issues P V, computes a softmax and only then waits for P V. So does the PTX. In the machine code the wait
comes before some of the exponentials, or before all, and the tensor cores idle during these.
"""

import re
import subprocess
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait

SHAPES = ((64, 128), (128, 64), (128, 128), (256, 128), (256, 64))  # head_dim, keys


@gluon.jit
def attend(o_ptr, steps, HEAD_DIM: gl.constexpr, KEYS: gl.constexpr):
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    of_s: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, KEYS, 16])
    of_o: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HEAD_DIM, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, of_o, 2)
    rows_of_s: gl.constexpr = gl.SliceLayout(1, of_s)
    rows_of_o: gl.constexpr = gl.SliceLayout(1, of_o)
    q_smem = gl.allocate_shared_memory(gl.float16, [64, HEAD_DIM], shared)
    k_smem = gl.allocate_shared_memory(gl.float16, [KEYS, HEAD_DIM], shared).permute((1, 0))
    v_smem = gl.allocate_shared_memory(gl.float16, [KEYS, HEAD_DIM], shared)
    s, o = gl.zeros([64, KEYS], gl.float32, of_s), gl.zeros([64, HEAD_DIM], gl.float32, of_o)
    p = gl.convert_layout(s.to(gl.float16), operand)
    row_max, row_sum = gl.full([64], -1e30, gl.float32, rows_of_s), gl.zeros([64], gl.float32, rows_of_s)
    for _ in range(steps):
        s = warpgroup_mma(q_smem, k_smem, s, use_acc=False, is_async=True)
        o = warpgroup_mma(p, v_smem, o, is_async=True)
        s = warpgroup_mma_wait(1, deps=[s])
        new_max = gl.maximum(row_max, gl.max(s, 1))
        rescale = gl.exp2(row_max - new_max)
        scores = gl.exp2(s - new_max[:, None])
        row_sum = row_sum * rescale + gl.sum(scores, 1)
        row_max = new_max
        o = warpgroup_mma_wait(0, deps=[o])
        o = o * gl.convert_layout(rescale, rows_of_o)[:, None]
        p = gl.convert_layout(scores.to(gl.float16), operand)
    at = gl.arange(0, 64, rows_of_o)[:, None] * HEAD_DIM + gl.arange(0, HEAD_DIM, gl.SliceLayout(0, of_o))[None, :]
    gl.store(o_ptr + at, o / gl.convert_layout(row_sum, rows_of_o)[:, None])


def build(head_dim, keys):
    signature = {"o_ptr": "*fp32", "steps": "i32", "HEAD_DIM": "constexpr", "KEYS": "constexpr"}
    source = GluonASTSource(attend, signature, {"HEAD_DIM": head_dim, "KEYS": keys})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


def under_product(text, waits, exponential):
    """Exponentials between the wait for Q K^T and the wait for P V, of all in the loop."""
    text = re.sub(r"\s+", " ", text)
    between = text.partition(waits + "1")[2].partition(waits + "0")[0]
    return f"{between.count(exponential)} of {text.count(exponential)}"


if __name__ == "__main__":
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    print(f"Triton {triton.__version__}: exponentials between the wait for Q K^T and the wait for P V")
    for head_dim, keys in SHAPES:
        asm = build(head_dim, keys).asm
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            Path(file.name).write_bytes(asm["cubin"])
            sass = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=True).stdout
        ptx = under_product(asm["ptx"], "wait_group.sync.aligned ", "ex2.approx")
        sass = under_product(sass, "gsb0, 0x", "MUFU.EX2")
        print(f"head_dim {head_dim}, {keys} keys: PTX {ptx}, SASS {sass}")
