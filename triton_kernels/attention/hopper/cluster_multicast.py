"""Two blocks of a cluster share K and V: one load brings a tile to both.

Builds on pinned_maxima. Core Triton cannot express a load that names the blocks that receive it: num_ctas=2 makes a
cluster of two blocks, but each loads for itself, and before Triton 3.9 it fails on an attention loop for sm_90.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.attention.hopper.overlapped_softmax import twin  # noqa: F401
