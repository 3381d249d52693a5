"""Flash Attention for the 5090: do its five steps buy the same when the tile does not move with them?

The article has bf16, no mask, head_dim 128, 8 heads, 4096 queries and 8192 keys. Its text names no tile, and the code
that it links to uses a different one in nearly every step. Here a change of the tile is a step of its own.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Tile
from harness.operators.attention.articles import BEST_OF_128, Article, Shape, Step
from harness.operators.attention.problem import Problem

NARROW, SQUARE = Tile(64, 32), Tile(64, 64)

ARTICLE = Article(
    name="seed_5090",
    title="Flash Attention for 5090",
    card="RTX 5090",
    link="https://github.com/gau-nernst/learn-cuda/tree/e83c256/07_attention",
    shapes=(
        Shape(
            Problem(1, 8, 8, 4096, 8192, 128, "bf16"),
            BEST_OF_128,
            tflops=197.74,
            libraries={"sdpa_flash": 186.73, "sdpa_cudnn": 203.61, "fa2": 190.58},
            own_code=295.0,
        ),
    ),
    steps=(
        Step(
            "v1 (basic)",
            "direct_rescale",
            Tile(128, 64, 1, 8),
            tflops=142.87,
            differs="eight warps of 16 rows, the linked code four of 32; plain loads, the linked code cp.async",
        ),
        Step("v2, the tile alone", "direct_rescale", SQUARE),
        Step("v2 (shared memory swizzling)", "xor_swizzle", SQUARE, tflops=181.11),
        Step("v3, the tile alone", "xor_swizzle", NARROW),
        Step(
            "v3 (2-stage pipelining)",
            "cp_async_pipeline",
            NARROW,
            tflops=189.84,
            differs="one buffer each for K and V, loaded under the other's mma; the article has two stages of both",
        ),
        Step("v4 (ldmatrix.x4 for K and V)", "ldmatrix_x4", NARROW, tflops=194.33),
        Step("v5, the tile alone", "ldmatrix_x4", SQUARE),
        Step("not in the article: exp2", "exp2_softmax", SQUARE),
        Step(
            "not in the article: V preloaded",
            "batched_m_tiles",
            SQUARE,
            differs="one m16 tile a warp; V fragments of 16 keys at a time",
        ),
        Step("v5 (better pipelining)", "asymmetric_kv_buffers", SQUARE, tflops=197.74),
    ),
    cannot_compare=(
        "TFLOPS: on a 5090 the tensor cores are slow beside shared memory, and v4 reaches 93% of their peak. "
        "Gains and the share of SDPA's FlashAttention are compared.",
        "v5 here also holds exp2 and preloaded V fragments, which the article has not; they are steps of their own.",
        "flash-attn (190.58 in the article) is not among the libraries of this experiment; SDPA's FlashAttention is.",
    ),
)

EXPERIMENT = ARTICLE.experiment()
