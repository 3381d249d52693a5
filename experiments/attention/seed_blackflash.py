"""BlackFlash: what do seven steps to TMA and warp specialization buy at head_dim 64?

The article describes a kernel for an RTX 5060 Laptop: bf16, no mask, four shapes, 64x64 tiles, two stages of K and V,
one producer warp and eight consumer warps. It names its steps but gives a number only for the last.
"""

if __name__ == "__main__":
    import _script  # noqa: F401

from harness.catalog.entries import Tile
from harness.operators.attention.articles import BEST, WIDE, Article, Shape, Step
from harness.operators.attention.problem import Problem

SQUARE, RING = Tile(64, 64), Tile(64, 64, 2)
LAST = ("warp_specialized", RING)

ARTICLE = Article(
    name="seed_blackflash",
    title="BlackFlash",
    card="RTX 5060 Laptop",
    shapes=(
        Shape(
            Problem.square(64, 64, 1024, 64),
            (("warp_specialized", Tile(128, 128, 2, 8)), *BEST, *WIDE),
            tflops=31.45,
            own_code=125.0,
        ),
        Shape(Problem.square(8, 16, 1024, 64), (LAST, *BEST, *WIDE), tflops=30.6, own_code=118.0),
        Shape(Problem.square(4, 8, 1024, 64), (LAST, *BEST), tflops=29.8, own_code=112.0),
        Shape(
            Problem.square(2, 2, 512, 64),
            (LAST, ("lean_instructions", SQUARE), ("lazy_rescale", RING)),
            tflops=4.54,
            own_code=20.0,
        ),
    ),
    steps=(
        Step("1 Naive FA2", "scalar", SQUARE),
        Step(
            "2 SMEM vectorized loads", "vectorized_loads", SQUARE, differs="loads from device memory are wide as well"
        ),
        Step(
            "3 MMA compute",
            "mma_ldmatrix",
            SQUARE,
            differs="scores and P pass through shared memory; in the article only P does",
        ),
        Step("3, scores in registers", "register_softmax", SQUARE, differs="P stays in registers as well"),
        Step("3, new max first", "direct_rescale", SQUARE),
        Step(
            "3, two warps a row block",
            "split_warp_pairs",
            Tile(64, 64, 1, 8),
            differs="P passes through shared memory again, as in the article",
        ),
        Step(
            "not in the article",
            "exp2_softmax",
            SQUARE,
            over="3, new max first",
            differs="the rung below tma_loads here: XOR swizzle, cp.async, ldmatrix.x4 and exp2 in one",
        ),
        Step("4 TMA data movement", "tma_loads", SQUARE, differs="replaces cp.async, not plain loads"),
        Step("5 Swizzle", "tma_swizzle", SQUARE),
        Step("6 Double buffering", "mbarrier_ring", RING),
        Step(
            "7 Warp specialization",
            "warp_specialized",
            RING,
            tflops=31.45,
            differs="four consumer warps of 16 rows, not eight in pairs; P stays in registers",
        ),
    ),
    cannot_compare=(
        "The steps: the article gives no number to any but the last, so there is no gain to set beside ours.",
        "Its ratios to cuDNN (1.05, 0.73, 0.64, 0.62): its benchmark times cuDNN with a causal mask and its own kernel "
        "without one, and credits both with the FLOPs of no mask. Here both have no mask.",
        "Its TFLOPS: another card, with another ratio of tensor cores to memory. They are shown, not divided by.",
        "Its own code to a few percent: it was measured apart from the rungs here, with cuDNN beside it at 427, 403, "
        "312 and 23 TFLOPS. Where cuDNN has another number here, that much of the last column is the measurement's.",
    ),
)

EXPERIMENT = ARTICLE.experiment()
