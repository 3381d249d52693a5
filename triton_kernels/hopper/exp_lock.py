"""Only one warpgroup at a time is in its exponentials: the same program as producer_consumer.

Builds on producer_consumer; changes nothing in core Triton. The missing lever is a barrier that some warps wait at and
others only arrive at: the compiler splits the rows between two warpgroups, and no statement is for one of them.
"""

from triton_kernels.hopper.producer_consumer import twin  # noqa: F401
