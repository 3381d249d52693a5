"""Flash attention from raw CUDA and PTX: which part of each of its seven steps pays?

The article climbs from 29.5 to 187.3 TFLOPS on an A100 (fp16, no mask, head_dim 128, 16 x 16 heads, 8192 tokens). Two
of its steps change the tile together with something else; here each change is a step of its own.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Tile
from harness.operators.attention.articles import BEST_OF_128, Article, Shape, Step
from harness.operators.attention.problem import Problem

SMALL, SQUARE, LONG, TALL = Tile(64, 32), Tile(64, 64), Tile(64, 128), Tile(128, 64)

ARTICLE = Article(
    name="seed_raw_ptx",
    title="Flash attention from raw CUDA and PTX",
    card="A100",
    shapes=(
        Shape(
            Problem.square(16, 16, 8192, 128, dtype="fp16"),
            BEST_OF_128,
            tflops=187.3,
            libraries={"sdpa_flash": 203.7},
            own_code=304.0,
        ),
    ),
    steps=(
        Step(
            "01_base",
            "direct_rescale",
            SMALL,
            tflops=29.5,
            differs="four warps of 16 rows, the article two of 32; two ldmatrix.x2 for K, the article one x4",
        ),
        Step("02_swizzle, the swizzle alone", "xor_swizzle", SMALL),
        Step("02_swizzle, the tile too", "large_tile", LONG, tflops=165.0),
        Step(
            "03_kvpipe",
            "cp_async_pipeline",
            LONG,
            tflops=175.1,
            differs="the copies alone; the article also moves the packing of P out of its inner loop, in which no rung "
            "here has it",
        ),
        Step("04_vpair", "ldmatrix_x4", LONG, tflops=175.7, differs="for K as well, which the article has from 01 on"),
        Step("05_exp2f", "exp2_softmax", LONG, tflops=181.1),
        Step("06_batched, half the keys alone", "exp2_softmax", SQUARE),
        Step(
            "06_batched, V preloaded too",
            "batched_m_tiles",
            SQUARE,
            differs="one m16 tile a warp: nothing is batched yet; V fragments of 16 keys at a time, where the article "
            "preloads those of all 64 keys, 128 registers",
        ),
        Step(
            "06_batched, two m16 tiles too",
            "batched_m_tiles",
            TALL,
            tflops=187.3,
            differs="V fragments of 16 keys at a time, the article preloads those of all 64 keys",
        ),
        Step(
            "07_dbuf",
            "fragment_double_buffer",
            TALL,
            tflops=186.4,
            differs="two changes that stay together, as in the article: fragments a step ahead, V no longer preloaded",
        ),
    ),
    cannot_compare=(
        "TFLOPS: an A100 has other limits, so gains and the share of FlashAttention-2 are compared, not TFLOPS.",
        "The gain of 02_swizzle is over a base with two warps, which is not a tile of any rung here; four warps hide "
        "more of the bank conflicts.",
        "The article checks a mean error below 0.05 on inputs from [0, 1], which the mean of V passes too. "
        "Rows here passed this project's gate.",
    ),
    flops=4 * 128 / (4 * 128 + 6),
    flop_rule="4 * N * N * d + 6 * N * N per head: softmax is counted, 1.2% more than here",
    own_code_is="the best of the article's kernels",
)

EXPERIMENT = ARTICLE.experiment()
