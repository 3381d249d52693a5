"""Tiles head after head: the same program as persistent.

Builds on tma_store; changes nothing in core Triton, whose grid has had the tiles of a head beside each other from the
ladder's first rung on. Which block runs next is the hardware's choice there.
"""

from triton_kernels.hopper.persistent import twin  # noqa: F401
