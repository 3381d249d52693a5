"""A miss of K or V lets L2 fetch 128 bytes instead of 256. That of Gluon's descriptors always does.

Builds on flagship_decode. Gluon names no fetch either.

So this is the same program as flagship_decode.
"""

from triton_kernels.attention.gluon.decode.flagship_decode import twin  # noqa: F401
