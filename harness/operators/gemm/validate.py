"""Bad input ends here: the checks in front of both languages. Reads shapes, strides, dtypes and addresses only."""

from itertools import pairwise

import torch

from harness.catalog.entries import Technique
from harness.catalog.techniques import check_capability
from harness.operators.gemm.arguments import input_specs, output_specs
from harness.operators.gemm.inputs import DTYPES
from harness.operators.gemm.problem import Problem
from harness.operators.memory import ALIGNMENT, check_address, extent
from harness.operators.protocol import Scalars, Tensors, TensorSpec


def validate(
    problem: Problem,
    tensors: Tensors,
    scalars: Scalars,
    *,
    technique: Technique | None = None,
    capability: tuple[int, int] | None = None,
) -> None:
    """Returns when every kernel takes these tensors; the first one that none takes raises TypeError or ValueError."""
    specs = {**input_specs(problem), **output_specs(problem)}
    if tensors.keys() != specs.keys():
        raise ValueError(f"tensors: got {', '.join(tensors)}, expected {', '.join(specs)} for {problem.slug}")
    for name, spec in specs.items():
        _check(name, tensors[name], spec)
        if tensors[name].device != tensors["a"].device:
            raise ValueError(
                f"{name}.device: got {tensors[name].device}, expected {tensors['a'].device} as a; use .to(a.device)"
            )
    extents = {name: extent(tensor) for name, tensor in tensors.items() if tensor.device.type != "meta"}
    for name, (begin, end) in extents.items():
        if name != "c" and begin < extents["c"][1] and extents["c"][0] < end:
            raise ValueError(
                f"c: got memory that overlaps {name}, expected memory of its own; allocate it with torch.empty"
            )
    check_capability(technique, capability)


def _check(name: str, tensor: torch.Tensor, spec: TensorSpec) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: got {type(tensor).__name__}, expected a torch.Tensor")
    if tensor.layout != torch.strided:
        raise ValueError(f"{name}.layout: got {tensor.layout}, expected torch.strided; pass {name}.to_dense()")
    if tensor.dtype != DTYPES[spec.dtype]:
        raise TypeError(f"{name}.dtype: got {tensor.dtype}, expected {DTYPES[spec.dtype]}; convert it first")
    if tuple(tensor.shape) != spec.shape:
        raise ValueError(f"{name}.shape: got {tuple(tensor.shape)}, expected {spec.shape} as compiled for")
    if tensor.requires_grad:
        raise ValueError(f"{name}.requires_grad: got True, expected False (forward only); pass {name}.detach()")
    order = spec.order or tuple(range(tensor.dim()))
    copied = f"{name}.contiguous()" if spec.order is None else f"{name}.T.contiguous().T"
    last = -1 if spec.order is None else order[-1]
    if tensor.stride(last) != 1:
        raise ValueError(f"{name}.stride({last}): got {tensor.stride(last)}, expected 1; pass {copied}")
    elements = ALIGNMENT // tensor.element_size()
    for dim, inner in pairwise(order):
        step, least = tensor.stride(dim), tensor.shape[inner] * tensor.stride(inner)
        if tensor.shape[dim] > 1 and (step < least or step % elements):
            raise ValueError(
                f"{name}.stride({dim}): got {step}, expected a multiple of {elements} ({ALIGNMENT} bytes), {least} or "
                f"more; pass {copied}"
            )
    check_address(name, tensor)
