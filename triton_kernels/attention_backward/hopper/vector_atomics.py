"""Atomic additions of 16 bytes: a quarter of the instructions that dQ takes, and four times the bytes of each.

Builds on one_kernel; changes the instruction that adds dQ. Core Triton cannot choose it: the compiler joins as many
additions as a thread has neighbours, and rearranges dQ so that these are four.

So this is the same program as one_kernel.
"""

from triton_kernels.attention_backward.hopper.one_kernel import twin  # noqa: F401
