"""Each program converts its share of the tiles of dQ, when they are complete, out of L2.

Builds on descending; changes where dQ is scaled and rounded. Core Triton has no wait for an addition that it makes
through a descriptor, so no counter can say that a tile is complete.

So this is the same program as descending.
"""

from triton_kernels.attention_backward.hopper.descending import twin  # noqa: F401
