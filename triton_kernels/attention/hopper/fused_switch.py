"""The next tile's first product is issued together with this tile's last.

Builds on persistent. Core Triton leaves the wait for a product to the compiler: it waits where the loop over keys ends,
before the loop over tiles continues. A single hand-written loop over the key tiles of all query tiles keeps the product
in flight (probe tiles_flat), with a condition in every iteration. There is no such kernel here.

So this is the same program as persistent.
"""

from triton_kernels.attention.hopper.persistent import twin  # noqa: F401
