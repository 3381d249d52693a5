"""The order of the overlap also holds in the machine code: the exponentials stay ahead of the wait for P V.

Builds on overlapped_softmax. Core Triton cannot express a wait that depends on a value: the compiler places the waits,
and ptxas orders the instructions around them.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.hopper.overlapped_softmax import twin  # noqa: F401
