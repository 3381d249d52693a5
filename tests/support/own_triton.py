"""A Triton kernel as a user may bring it, with a loop that never ends."""

import torch
import triton
import triton.language as tl


@triton.jit
def wait_for_ever(flag_ptr):
    while tl.load(flag_ptr, volatile=True) == 0:
        tl.debug_barrier()


@triton.jit
def count_for_ever():
    i = tl.full((), 0, tl.int32)
    while i < 1:
        i = i * 1


def counting(q, k, v, *, causal, scale):
    count_for_ever[(1,)]()
    return torch.empty_like(q)


def endless(q, k, v, *, causal, scale):
    wait_for_ever[(1,)](torch.zeros(1, dtype=torch.int32, device=q.device))
    return torch.empty_like(q)
