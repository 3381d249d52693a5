"""A dedicated producer: one thread loads Q and dO ahead of everyone, and its warpgroup's registers go to the math.

Builds on transposed_scores; changes who loads and who holds registers. Core Triton cannot name roles, and its hint
(`warp_specialize=True`) does not reach this loop: with 8 warps the compiler ignores it, with 4 it aborts.

So this is the same program as transposed_scores.
"""

from triton_kernels.attention_backward.hopper.transposed_scores import twin  # noqa: F401
