"""The join reads several parts of all rows at once. In Gluon that of flagship_decode does.

Builds on short_fetches. Gluon's join has a layout for several parts of a row, and a mask for those that are not there.

So this is the same program as flagship_decode.
"""

from triton_kernels.attention.gluon.decode.flagship_decode import twin  # noqa: F401
