"""One launch: the warp that converts dQ also computes D, ahead of the blocks that need it.

Builds on last_adder; changes who computes D and LSE in base 2, and when. In core Triton all warps of a program do the
same, so D would be computed while nothing is multiplied, and no program can convert dQ when it is complete: three
launches remain.

So this is the same program as longest_first.
"""

from triton_kernels.attention_backward.hopper.longest_first import twin  # noqa: F401
