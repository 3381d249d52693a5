"""O is rescaled between issuing Q K^T and P V: the same program as lazy_rescale_wgmma.

Builds on lazy_rescale_wgmma; changes nothing in core Triton. The missing lever is the moment at which a product is
issued and that at which it is awaited: a multiply that stands between two products in the source stands where the
compiler awaits the first.
"""

from triton_kernels.hopper.lazy_rescale_wgmma import twin  # noqa: F401
