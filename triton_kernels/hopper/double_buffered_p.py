"""P has two sets of registers, so the next P is converted while P V still reads the last one.

Builds on held_overlap. Core Triton cannot express the wait for a product: the compiler waits for P V where it is
issued, in every order of the statements, and assigns the registers of P itself.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.hopper.overlapped_softmax import twin  # noqa: F401
