"""Two tiles of keys for each multiprocessor in a section of heads: what this twin has no sections for.

Builds on flagship; the CUDA kernel changes how many heads go together. Core Triton's flagship sums dQ in registers, so
that no order of tiles has to keep it in L2, and none of its programs stays to take a second tile.

So this is the same program as flagship.
"""

from triton_kernels.attention_backward.hopper.deterministic import twin  # noqa: F401
