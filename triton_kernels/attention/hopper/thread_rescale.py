"""Each thread decides by itself whether it rescales its part of O, without a vote.

Builds on flagship. Core Triton can say it, by an if in tl.map_elementwise. It was slower wherever that was tried: the
multiplies fill time in which a program waits for V, and the branch comes before V is asked for.

So this is the same program as flagship.
"""

from triton_kernels.attention.hopper.flagship import twin  # noqa: F401
