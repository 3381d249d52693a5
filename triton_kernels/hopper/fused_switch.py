"""The next tile's first product is issued with this tile's last: the same program as persistent.

Builds on persistent; changes nothing in core Triton. The missing lever is a product that stays in flight from one loop
to the next: what is issued in a loop over keys is awaited where the loop ends, and the loop over tiles begins another.
One loop over the steps of all tiles, written by hand, keeps it in flight (the probe tiles_flat), with a division and a
condition in every step; a loop that takes its tiles from a counter has not been written so.
"""

from triton_kernels.hopper.persistent import twin  # noqa: F401
