"""Scores never leave registers: the same program as mma_ldmatrix.

Builds on mma_ldmatrix; changes nothing in core Triton. The missing lever is where a tensor lives: scores are values of
the language, and the compiler keeps them in registers already in mma_ldmatrix. It cannot be told to pass them through
shared memory, nor which lanes exchange row max and row sum.
"""

from triton_kernels.ampere.mma_ldmatrix import launch, specialize, workspace_bytes  # noqa: F401
