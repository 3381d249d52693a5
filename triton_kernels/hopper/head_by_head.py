"""Tiles head after head: the same program as tma_store.

Builds on tma_store; changes nothing in core Triton, whose grid has had the tiles of a head beside each other from the
ladder's first rung on. Which block runs next is the hardware's choice there.
"""

from triton_kernels.hopper.tma_store import launch, specialize, workspace_bytes  # noqa: F401
