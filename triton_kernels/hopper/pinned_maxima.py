"""K's release hangs on the row maxima, which pins their place: the same program as overlapped_softmax.

Builds on wide_tile; changes nothing in core Triton. The missing lever is the release: which statement gives a buffer
back, and in which order the next K and V are asked for, is the compiler's.
"""

from triton_kernels.hopper.overlapped_softmax import twin  # noqa: F401
