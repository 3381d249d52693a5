"""The join reads several parts of all rows at once. In core Triton that of flagship_decode does.

Builds on short_fetches; the CUDA kernel changes the join, which core Triton writes over blocks of parts with a mask.

So this is the same program as flagship_decode.
"""

from triton_kernels.attention.decode.flagship_decode import twin  # noqa: F401
