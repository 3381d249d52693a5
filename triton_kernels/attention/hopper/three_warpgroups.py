"""A third consumer warpgroup: 192 query rows.

Builds on producer_consumer. Core Triton cannot express a third consumer warpgroup: tensor sizes and num_warps are
powers of two, so 192 rows and 12 warps cannot be requested, and the reference tile is declined. Only a hook on the
compiler's stages makes one, and then each warpgroup loads K and V for itself.

So this is the same program as producer_consumer.
"""

from triton_kernels.attention.hopper.producer_consumer import twin  # noqa: F401
