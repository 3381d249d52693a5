"""The order of the overlap also holds in the machine code: the exponentials stay ahead of the wait for P V.

Builds on overlapped_softmax. Core Triton leaves the waits to the compiler: no wait takes a value, and ptxas orders the
instructions around them. A store that depends on the row sums, and never happens, would hold the order; this kernel has
none.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.attention.hopper.overlapped_softmax import twin  # noqa: F401
