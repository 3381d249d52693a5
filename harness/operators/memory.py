"""What kernels ask of a tensor and of the memory in which it lies."""

from collections.abc import Mapping

import torch
from torch import Tensor

from harness.operators.protocol import Problem, Tensors, TensorSpec

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "int32": torch.int32}
"""By the names that problems give them."""

ALIGNMENT = 16
"""Bytes: the widest load or store of a kernel, the unit of cp.async and of a TMA stride."""


def wrong(what: str, got: object, expected: object, do: str = "", kind: type[Exception] = ValueError) -> Exception:
    """An error that names an argument, what was got, what is expected, and what to do about it."""
    return kind(f"{what}: got {got}, expected {expected}{do and '; '}{do}")


def check_compiled_for(problem: Problem, tensors: Tensors, specs: Mapping[str, TensorSpec]) -> None:
    """Returns when the tensors are those that the problem's kernels are compiled for, on one device; the first one that
    is not raises TypeError or ValueError. Strides and addresses are left to the operator."""
    if tensors.keys() != specs.keys():
        raise wrong("tensors", ", ".join(tensors), f"{', '.join(specs)} for {problem.slug}")
    first = next(iter(specs))
    for name, spec in specs.items():
        tensor, dtype = tensors[name], DTYPES[spec.dtype]
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: got {type(tensor).__name__}, expected a torch.Tensor")
        check_memory(name, tensor)
        if tensor.dtype != dtype:
            raise wrong(f"{name}.dtype", tensor.dtype, f"{dtype} as compiled for", "convert it first", TypeError)
        if tensor.device != (device := tensors[first].device):
            raise wrong(f"{name}.device", tensor.device, f"{device} as {first}", f"use .to({first}.device)")
        if tuple(tensor.shape) != spec.shape:
            raise wrong(f"{name}.shape", tuple(tensor.shape), f"{spec.shape} as compiled for")
        check_no_gradient({name: tensor})


def check_no_gradient(tensors: dict[str, Tensor]) -> None:
    """Raises ValueError for a tensor whose gradient a launch would lose."""
    for name, tensor in tensors.items():
        if tensor.requires_grad and torch.is_grad_enabled():
            expected = "False or torch.no_grad() (forward only)"
            raise wrong(f"{name}.requires_grad", True, expected, f"pass {name}.detach()")


def check_memory(name: str, tensor: Tensor) -> None:
    """Returns when the tensor holds its values in memory, one stride a dimension; else raises ValueError.

    A kernel reads memory, and as it is: what PyTorch remembers to do with it later, it does not know.
    """
    if tensor.is_nested:
        raise wrong(name, "a nested tensor", "one size of each dimension", "pad it, or call per sequence")
    if tensor.layout != torch.strided:
        raise wrong(f"{name}.layout", tensor.layout, torch.strided, f"pass {name}.to_dense()")
    if tensor.is_neg() or tensor.is_conj():
        lazily = "negated" if tensor.is_neg() else "conjugated"
        got = f"a view that PyTorch has {lazily} without touching its memory"
        raise wrong(name, got, "plain values", f"pass {name}.resolve_neg().resolve_conj()")
    if tensor.device.type == "meta" or not tensor.numel():
        return
    needed = tensor.storage_offset() * tensor.element_size() + reach(tensor)
    try:
        size, has_memory = tensor.untyped_storage().nbytes(), not tensor._is_zerotensor() and tensor.data_ptr() != 0
    except RuntimeError:  # what torch.vmap and torch.func.grad give to a function
        size, has_memory = needed, False
    if size >= needed and not has_memory:
        got = "a tensor without memory of its own (a fake one, a lazy zero, or one inside torch.func)"
        raise wrong(name, got, "one that holds its values")
    if size < needed:
        expected = f"the {needed} that its shape and strides reach"
        raise wrong(name, f"a storage of {size} bytes", expected, "it was freed or made smaller")


def check_address(name: str, tensor: Tensor) -> None:
    """Raises ValueError unless the first element lies at a multiple of ALIGNMENT."""
    if past := tensor.data_ptr() % ALIGNMENT:
        got = f"{past} bytes past a multiple of {ALIGNMENT}"
        raise wrong(f"{name}.data_ptr()", got, f"aligned to {ALIGNMENT} bytes", f"pass {name}.clone()")


def extent(tensor: Tensor) -> tuple[int, int]:
    """Addresses of the first byte and of the byte after the last one."""
    return tensor.data_ptr(), tensor.data_ptr() + reach(tensor)


def reach(tensor: Tensor) -> int:
    """Bytes from the first element to the end of the last one. Strides are not negative in PyTorch."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()
