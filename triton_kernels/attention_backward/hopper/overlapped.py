"""Products in flight under the arithmetic of a step: dP under P, dV under dS, dK while dQ is stored.

Builds on bulk_reduce; changes what is waited for, and when. Core Triton has no waits: the compiler waits for all
products before the first instruction that needs one (`wait_group 0`).

So this is the same program as bulk_reduce.
"""

from triton_kernels.attention_backward.hopper.bulk_reduce import twin  # noqa: F401
