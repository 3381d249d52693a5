"""A third math warpgroup, 192 query rows: the same program as producer_consumer.

Builds on producer_consumer; changes nothing in core Triton. The missing lever is the tile: tensors and num_warps come
in powers of two, so 192 rows and 12 warps cannot be asked for, and the reference tile is declined.
"""

from triton_kernels.hopper.producer_consumer import twin  # noqa: F401
