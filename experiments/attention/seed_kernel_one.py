"""Kernel 1 of Flash Attention from scratch: how far is it from the reference, and what does the grid order buy?

The article builds a first kernel for an RTX 3090: 64x64 tiles, 4 warps, head_dim 128, no mask, stored as (batch, seq,
heads, dim). Both orders of the grid are timed; the later kernels that the article names follow.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Tile
from harness.operators.attention.articles import BEST_OF_128, Article, Shape, Step
from harness.operators.attention.problem import Problem

SQUARE = Tile(64, 64)

ARTICLE = Article(
    name="seed_kernel_one",
    title="Flash Attention 2, chapter 3: kernel 1",
    author="BY",
    card="RTX 3090",
    shapes=(
        Shape(
            Problem.square(4, 16, 4096, 128, layout="bshd"),
            BEST_OF_128,
            tflops=33.28,
            libraries={"sdpa_flash": 67.29},
            own_code=350.0,
        ),
    ),
    steps=(
        Step("Kernel 1, tensor cores", "mma_ldmatrix", SQUARE, differs="scores and P through shared memory"),
        Step("Kernel 1, softmax by quad shuffles", "register_softmax", SQUARE),
        Step(
            "Kernel 1",
            "direct_rescale",
            SQUARE,
            tflops=33.28,
            differs="plain loads, two ldmatrix.x2 and 4-byte stores; the article has cp.async, ldmatrix.x4, Q in "
            "registers, O through shared memory and the good grid order",
        ),
        Step("later: swizzling", "xor_swizzle", SQUARE),
        Step(
            "later: loads under the mma", "cp_async_pipeline", SQUARE, differs="kernel 1 has cp.async and waits for it"
        ),
        Step("in kernel 1: ldmatrix.x4", "ldmatrix_x4", SQUARE),
        Step("later: instruction fusion", "exp2_softmax", SQUARE),
        Step(
            "grid order, not optimized", "batched_m_tiles", SQUARE, differs="V fragments preloaded, one m16 tile a warp"
        ),
        Step(
            "grid order, optimized",
            "l2_grid_order",
            SQUARE,
            gain=1.03,
            differs="published: about 3% on an RTX 3090, 1% on an A100",
        ),
        Step("in kernel 1: O through shared memory", "staged_epilogue", SQUARE),
        Step(
            "later: double-buffered fragments",
            "fragment_double_buffer",
            SQUARE,
            over="grid order, not optimized",
        ),
    ),
    cannot_compare=(
        "TFLOPS: an RTX 3090 is another card, so the share of the reference is compared.",
        "The article names neither batch, heads, sequence length nor which of fp16 and bf16 its numbers are for. "
        "Here: 4 x 16 heads, 4096 tokens, bf16.",
        "Its reference (67.29 TFLOPS) is taken to be FlashAttention-2; the article does not say what it is.",
        "Kernel 1 holds some of the later rungs here and lacks their predecessors, so no single rung is kernel 1.",
        "L2 hit rates: the article's are of cards with an L2 of 6 and 40 MB and of a problem that it does not name, so "
        "they stand beside ncu's of this card and are not divided.",
    ),
    flops=4 * 128 / (4 * 128 + 6),
    flop_rule="4 * N * N * d + 6 * N * N per head in the series that it retells: 1.2% more than here",
    own_code_is="the last of the sixteen kernels that this one begins",
    l2_hit_rates={"RTX 3090": (2, 98), "A100": (25.6, 92.6)},
)

EXPERIMENT = ARTICLE.experiment()
