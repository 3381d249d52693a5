"""Two tiles of keys for each multiprocessor: in core Triton there is nothing to pair.

Builds on flagship; the CUDA kernel changes how many heads of K and V go together, so that L2 still holds the sums of dQ
that they add to. Here dQ is summed in registers, by whoever has the queries.

So this is the same program as flagship.
"""

from triton_kernels.attention_backward.hopper.flagship import twin  # noqa: F401
