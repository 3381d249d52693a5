"""P has two sets of registers: the same program as overlapped_softmax.

Builds on held_overlap; changes nothing in core Triton. The missing levers are registers by name and waits: which set a
product reads, when it is converted and where the product is awaited are the compiler's.
"""

from triton_kernels.hopper.overlapped_softmax import twin  # noqa: F401
