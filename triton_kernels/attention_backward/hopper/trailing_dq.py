"""dQ of a step runs under the exponentials of the next one: no warpgroup waits for the other's dS with nothing to do.

Builds on mask_apart; changes the order of a step's products. Core Triton's compiler waits for a product before anything
else runs (`wait_group 0`), so no order puts one under the next step's exponentials.

So this is the same program as mask_apart.
"""

from triton_kernels.attention_backward.hopper.mask_apart import twin  # noqa: F401
