"""As many keys or query rows as the registers hold.

Builds on pingpong. Tensors of core Triton have powers of two as sizes, so tiles of 192x80, 128x176 and 128x80 cannot be
requested, and the reference tiles are declined. Several smaller tensors in one loop could do the same products (probe
tile_176); no kernel here does so.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.attention.hopper.overlapped_softmax import twin  # noqa: F401
