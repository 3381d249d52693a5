"""O is rescaled between issuing Q K^T and issuing P V.

Builds on lazy_rescale_wgmma. Core Triton leaves the wait for a product to the compiler: with the if of that kernel it
waits for Q K^T before O is multiplied. In the same order without an if, or with tl.map_elementwise, it does not.

So this is the same program as lazy_rescale_wgmma.
"""

from triton_kernels.attention.hopper.lazy_rescale_wgmma import twin  # noqa: F401
