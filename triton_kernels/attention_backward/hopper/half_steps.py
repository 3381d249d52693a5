"""A step in two halves: core Triton awaits every product at once, and nothing could run under another.

Builds on paired_tiles; the CUDA kernel changes the order of a step, so that dV and dK of half of its queries are in
flight while the other half's exponentials are computed.

So this is the same program as flagship.
"""

from triton_kernels.attention_backward.hopper.flagship import twin  # noqa: F401
