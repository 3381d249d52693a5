"""Two blocks of a cluster share K and V: the same program as overlapped_softmax.

Builds on pinned_maxima; changes nothing in core Triton. The missing lever is a load that names the blocks that get it:
num_ctas=2 makes a cluster of two, each of which loads for itself, and fails on an attention loop for sm_90.
"""

from triton_kernels.hopper.overlapped_softmax import twin  # noqa: F401
