"""With a causal mask each warpgroup stops at its own diagonal block.

Builds on persistent. Core Triton cannot express a product for some of the warps: all rows of a program loop over the
same key tiles.

So this is the same program as persistent.
"""

from triton_kernels.attention.hopper.persistent import twin  # noqa: F401
