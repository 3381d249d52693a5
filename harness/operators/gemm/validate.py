"""Bad input ends here: the checks in front of both languages. Reads shapes, strides, dtypes and addresses only."""

from itertools import pairwise

import torch

from harness.operators.gemm.arguments import input_specs, output_specs
from harness.operators.gemm.problem import Problem
from harness.operators.memory import ALIGNMENT, check_address, check_compiled_for, extent, wrong
from harness.operators.protocol import Scalars, Tensors, TensorSpec


def validate(problem: Problem, tensors: Tensors, scalars: Scalars) -> None:
    """Returns when every kernel takes these tensors; the first one that none takes raises TypeError or ValueError."""
    specs = {**input_specs(problem), **output_specs(problem)}
    check_compiled_for(problem, tensors, specs)
    for name, spec in specs.items():
        _check_layout(name, tensors[name], spec)
    extents = {name: extent(tensor) for name, tensor in tensors.items() if tensor.device.type != "meta"}
    for name, (begin, end) in extents.items():
        if name != "c" and begin < extents["c"][1] and extents["c"][0] < end:
            raise wrong("c", f"memory that overlaps {name}", "memory of its own", "allocate it with torch.empty")


def _check_layout(name: str, tensor: torch.Tensor, spec: TensorSpec) -> None:
    order = spec.order or tuple(range(tensor.dim()))
    copied = f"{name}.contiguous()" if spec.order is None else f"{name}.T.contiguous().T"
    last = -1 if spec.order is None else order[-1]
    if tensor.stride(last) != 1:
        raise wrong(f"{name}.stride({last})", tensor.stride(last), 1, f"pass {copied}")
    elements = ALIGNMENT // tensor.element_size()
    for dim, inner in pairwise(order):
        step, least = tensor.stride(dim), tensor.shape[inner] * tensor.stride(inner)
        if tensor.shape[dim] > 1 and (step < least or step % elements):
            expected = f"a multiple of {elements} ({ALIGNMENT} bytes), {least} or more"
            raise wrong(f"{name}.stride({dim})", step, expected, f"pass {copied}")
    check_address(name, tensor)
