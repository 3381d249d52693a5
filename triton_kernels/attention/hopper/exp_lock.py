"""Only one warpgroup at a time is in its exponentials; the others have the tensor cores.

Builds on producer_consumer. Core Triton cannot express a barrier that some warps wait at and others only arrive at: the
compiler splits the rows between two warpgroups, and no statement applies to only one of them.

So this is the same program as producer_consumer.
"""

from triton_kernels.attention.hopper.producer_consumer import twin  # noqa: F401
