"""The fastest of this ladder at any size.

Builds on stream_k. No tile is chosen yet.

So this is the same program as stream_k.
"""

from triton_kernels.gemm.hopper.stream_k import twin  # noqa: F401
