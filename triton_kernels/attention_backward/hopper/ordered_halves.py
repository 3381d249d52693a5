"""half_steps whose bits repeat: core Triton computes dQ in a kernel of its own, and nothing is added in any order.

Builds on half_steps; the CUDA kernel changes when a block may add to dQ, which tiles it takes, and which way they go.

So this is the same program as flagship.
"""

from triton_kernels.attention_backward.hopper.flagship import twin  # noqa: F401
