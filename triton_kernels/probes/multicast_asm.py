"""Inline PTX loads a tile into both blocks of a cluster, but only into shared memory that it declares itself."""

import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

FORMS = ("core", "Gluon", "plain")
MULTICAST = tl.constexpr(
    """{
    .shared .align 128 .b8 tile[16384];
    .shared .align 8 .b64 full;
    .reg .pred first, leads, done;
    .reg .b32 thread, rank, to, barrier, from;
    .reg .b16 both;
    mov.u32 thread, %tid.x;
    mov.u32 rank, %cluster_ctarank;
    mov.u32 to, tile;
    mov.u32 barrier, full;
    mov.b16 both, 3;
    setp.eq.u32 first, thread, 0;
    setp.eq.and.u32 leads, rank, 0, first;
    @first mbarrier.init.shared::cta.b64 [barrier], 1;
    @first fence.mbarrier_init.release.cluster;
    @first mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], 16384;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @leads cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [to], [$2, {0, 0}], [barrier], both;
    wait: mbarrier.try_wait.parity.shared::cta.b64 done, [barrier], 0;
    @!done bra wait;
    shl.b32 from, thread, 2;
    add.u32 from, from, to;
    ld.shared.b32 $0, [from];
    add.u32 $0, $0, $1;
    }"""
)


@triton.jit
def in_core(map_ptr, x_ptr, y_ptr, ASM: tl.constexpr):
    """`map_ptr`: a tensor map in global memory."""
    index = tl.arange(0, 256)
    x = tl.load(x_ptr + index)
    if ASM:
        at = tl.zeros((256,), tl.int64) + map_ptr.to(tl.int64)
        x = tl.inline_asm_elementwise(MULTICAST, "=r,r,l", [x, at], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y_ptr + index, x)


@gluon.jit
def in_gluon(map_ptr, x_ptr, y_ptr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[1]])
    index = gl.arange(0, 256, layout)
    at = gl.zeros([256], gl.int64, layout) + map_ptr.to(gl.int64)
    x = gl.load(x_ptr + index)
    x = gl.inline_asm_elementwise(MULTICAST, "=r,r,l", [x, at], dtype=gl.int32, is_pure=False, pack=1)
    gl.store(y_ptr + index, x)


def build(form):
    pointers = {"map_ptr": "*i8", "x_ptr": "*i32", "y_ptr": "*i32"}
    if form == "Gluon":
        source = GluonASTSource(in_gluon, pointers)
    else:
        source = ASTSource(in_core, {**pointers, "ASM": "constexpr"}, {"ASM": form == "core"})
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4, "num_ctas": 2})


if __name__ == "__main__":
    for form in FORMS:
        try:
            print(form, *re.findall(r"cp\.async\.bulk\S*|\.reqnctapercluster \d", build(form).asm["ptx"]), flush=True)
        except Exception as error:
            print(form, str(error)[:300], flush=True)
