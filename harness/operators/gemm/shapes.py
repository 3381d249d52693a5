"""The 26 shapes of the scorecard, in bf16. Standard library only."""

from __future__ import annotations

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
