"""C of a tile leaves under the products of the next one.

Builds on square_waves. Core Triton leaves to its compiler when a tile is stored: in the flattened loop over tiles the
store stands at the end of its own tile, and nothing in the language asks for it in the next one's first steps.

So this is the same program as square_waves.
"""

from triton_kernels.gemm.hopper.square_waves import twin  # noqa: F401
