"""P has two sets of registers, so the next P is converted while P V still reads the last one.

Builds on held_overlap. Core Triton leaves the waits and the registers of P to the compiler: it waits for P V before it
converts the next P. Only a loop that carries the bits of P, with P V one step behind, gets the wait after the
conversion; this kernel has another order.

So this is the same program as overlapped_softmax.
"""

from triton_kernels.attention.hopper.overlapped_softmax import twin  # noqa: F401
