"""The release of K depends on the row maxima, which keeps them ahead of the wait for P V.

Builds on wide_tile. Core Triton leaves the release of a buffer to the compiler: it decides after which statement a
buffer is free, and in which order the next K and V are loaded. A store that depends on the row maxima, and never
happens, would keep them ahead of the wait; this kernel has none.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.attention.hopper.overlapped_softmax import twin  # noqa: F401
