"""A miss of K or V lets L2 fetch 128 bytes instead of 256. That of core Triton's descriptors always does.

Builds on flagship_decode; the CUDA kernel changes the tensor maps, of which core Triton names no fetch.

So this is the same program as flagship_decode.
"""

from triton_kernels.attention.decode.flagship_decode import twin  # noqa: F401
