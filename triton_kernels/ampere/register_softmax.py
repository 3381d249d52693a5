"""Scores never leave registers: the same program as wmma.

Builds on mma_ldmatrix; changes nothing in core Triton. The missing lever is where a tensor lives: scores are values of
the language, and the compiler alone decides whether they, their row max and their row sum pass through shared memory.
"""

from triton_kernels.ampere.wmma import launch, specialize, workspace_bytes  # noqa: F401
