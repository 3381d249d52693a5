"""The fastest of the ladder: descending, whose programs go in the order of their work.

Builds on descending; changes how tiles of keys are shared out. A program of core Triton can have a part of a tile, but
the addition of its dK and dV is over at a time that no other program knows: one more launch would have to convert them.

So this is the same program as descending.
"""

from triton_kernels.attention_backward.hopper.descending import twin  # noqa: F401
