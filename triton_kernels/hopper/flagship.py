"""The fastest attention of this ladder in core Triton, at tiles of its own.

Builds on wgmma; changes only the tiles. Later rungs express the order of the products, persistent blocks, lazy
rescaling and integer maxima; the note on this rung tells what each reaches at its best tile. The rest of the CUDA
flagship has no counterpart in the language: turns between warpgroups, a release that depends on the row maxima, a loop
that ends at each warpgroup's own diagonal, and tensors of 80 keys.

So this is the same program as wgmma.
"""

from triton_kernels.hopper.wgmma import twin  # noqa: F401
