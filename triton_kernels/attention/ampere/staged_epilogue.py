"""O leaves through shared memory, so that each lane stores 16 bytes.

Builds on l2_grid_order. Core Triton leaves the path of a store to the compiler: it turns the fragments of O into rows
through shared memory and stores 16 bytes per thread, in every rung except scalar (2 bytes).

So this is the same program as l2_grid_order.
"""

from triton_kernels.attention.ampere.l2_grid_order import twin  # noqa: F401
