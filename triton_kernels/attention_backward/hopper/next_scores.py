"""The next step's S begins before this step's dK ends: the tensor cores go on while a warpgroup waits and stores.

Builds on overlapped; changes where a turn of the loop begins. Core Triton could write S of the next step first, but its
compiler waits for it with all others (`wait_group 0`), before anything else runs.

So this is the same program as bulk_reduce.
"""

from triton_kernels.attention_backward.hopper.bulk_reduce import twin  # noqa: F401
