"""Tiles are dealt out head after head, so that those that share K and V run at the same time.

Builds on tma_store. Core Triton can express this order, as arithmetic on the tile's number, but no kernel of its own
does so here: tiles go longest first, in sections of heads.

So this is the same program as persistent.
"""

from triton_kernels.hopper.persistent import twin  # noqa: F401
