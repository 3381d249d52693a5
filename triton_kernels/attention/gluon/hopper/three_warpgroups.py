"""192 query rows: a third consumer warpgroup.

Builds on producer_consumer; changes the tile only, which the registry sets.

So this is the same program as producer_consumer, at another tile.
"""

from triton_kernels.attention.gluon.hopper.producer_consumer import twin  # noqa: F401
