"""O leaves through shared memory in 16-byte stores: the same program as l2_grid_order.

Builds on l2_grid_order; changes nothing in core Triton. The missing lever is the path of a store: the compiler turns
the fragments of O into rows through shared memory and stores 16 bytes per thread, in every rung but scalar (2 bytes).
"""

from triton_kernels.ampere.l2_grid_order import twin  # noqa: F401
