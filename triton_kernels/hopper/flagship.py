"""The fastest attention of this ladder in core Triton: the same program as wgmma.

Builds on wgmma; changes nothing in core Triton. It is the ladder's first Triton program, at tiles of its own: the later
ones say the order of the products, persistent blocks, lazy rescaling and integer maxima in the words there are, and
were slower at their best tiles. What the CUDA twin is made of beyond them has no word: turns, a release that hangs on
the maxima, the end of each warpgroup at its own diagonal, and steps of 80 keys.
"""

from triton_kernels.hopper.wgmma import twin  # noqa: F401
