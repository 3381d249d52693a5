"""A warpgroup finds its next places while its products run.

Builds on trailing_store. In the flattened loop over tiles core Triton's compiler decides when the divisions for a
tile's place run.

So this is the same program as square_waves, which trailing_store is as well.
"""

from triton_kernels.gemm.hopper.square_waves import twin  # noqa: F401
