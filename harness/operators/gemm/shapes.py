"""The shapes of the scorecard, in bf16: 26 of one product, and those of groups. Standard library only."""

from itertools import product

from harness.operators.gemm.problem import Problem

SQUARES = (1024, 2048, 3072, 4096, 5120, 8192, 16_384)
"""3072 and 5120 leave a last wave of tiles that fills few multiprocessors."""
MODELS = (
    *((4096, n, k) for n, k in ((11_008, 4096), (4096, 11_008), (14_336, 4096), (4096, 14_336))),
    *((8192, n, k) for n, k in ((14_336, 4096), (4096, 14_336))),
    *((16_384, 4096, k) for k in (1024, 4096)),
)
"""Tokens by what the feed-forward and attention layers of language models have."""
FEW_ROWS = tuple((m, n, k) for m, (n, k) in product((16, 64, 256), ((14_336, 4096), (4096, 14_336))))
"""A few tokens: weights are read once and hardly used."""
SHORT_AND_LONG = (
    *((size, size, 512) for size in (4096, 8192)),
    *((size, size, 32_768) for size in (1024, 4096, 8192)),
)
"""Few and many steps of the main loop for each tile."""
SHAPES = (*map(Problem.square, SQUARES), *(Problem(*sizes) for sizes in (*MODELS, *FEW_ROWS, *SHORT_AND_LONG)))

LAYERS = (
    *((8, n, k) for n, k in ((4096, 7168), (7168, 2048))),
    *((32, n, k) for n, k in ((4096, 7168), (7168, 2048))),
    *((128, n, k) for n, k in ((1536, 2048), (2048, 768))),
)
"""Experts on one GPU, and the two products of their layers: what goes in, and what comes out."""
TOKENS = (4096, 32_768)
"""Rows of all experts together."""
GROUPED_SHAPES = tuple(Problem(m, n, k, groups=groups) for groups, n, k in LAYERS for m in TOKENS)
