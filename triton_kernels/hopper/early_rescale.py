"""O is rescaled between issuing Q K^T and issuing P V.

Builds on lazy_rescale_wgmma. Core Triton cannot express the points at which a product is issued and waited for: a
multiplication written between two products runs after the compiler's wait for the first.

So this is the same program as lazy_rescale_wgmma.
"""

from triton_kernels.hopper.lazy_rescale_wgmma import twin  # noqa: F401
