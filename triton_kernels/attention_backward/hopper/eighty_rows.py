"""80 queries a step: the tensors of core Triton have powers of two for sizes, and there is no tile of 80 rows.

Builds on half_steps; the CUDA kernel has 80 queries a step, and computes dQ transposed, because 80 is no M of wgmma.

So this is the same program as flagship.
"""

from triton_kernels.attention_backward.hopper.flagship import twin  # noqa: F401
