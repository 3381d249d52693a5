"""192 query rows, a third math warpgroup, the tile only: the same program as producer_consumer.

Builds on producer_consumer; changes nothing but the tile.
"""

from triton_kernels.gluon.hopper.producer_consumer import twin  # noqa: F401
