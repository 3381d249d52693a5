"""What kernels ask of the memory in which a tensor lies."""

import torch
from torch import Tensor

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "int32": torch.int32}
"""By the names that problems give them."""

ALIGNMENT = 16
"""Bytes: the widest load or store of a kernel, the unit of cp.async and of a TMA stride."""


def check_address(name: str, tensor: Tensor) -> None:
    if past := tensor.data_ptr() % ALIGNMENT:
        raise ValueError(
            f"{name}.data_ptr(): got {past} bytes past a multiple of {ALIGNMENT}, expected aligned to {ALIGNMENT} "
            f"bytes; pass {name}.clone()"
        )


def extent(tensor: Tensor) -> tuple[int, int]:
    """Addresses of the first byte and of the byte after the last one."""
    return tensor.data_ptr(), tensor.data_ptr() + reach(tensor)


def reach(tensor: Tensor) -> int:
    """Bytes from the first element to the end of the last one. Strides are not negative in PyTorch."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
