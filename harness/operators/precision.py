"""What judges kernels of every operator: the precision of the harness, and whether an output is finite."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from harness.operators.protocol import Failure


@contextmanager
def ieee_matmul() -> Iterator[None]:
    """fp32 matrix products in fp32, whatever the process allows: no TF32 on the GPU, no bf16 on the CPU."""
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        yield
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision


def check_finite(name: str, tensor: torch.Tensor) -> Failure | None:
    """Whether any element is NaN or infinite."""
    bad = ~tensor.isfinite()
    if not (count := int(bad.sum())):
        return None
    where = tuple(int(i) for i in bad.nonzero()[0])
    return "finite", f"{count} of {bad.numel()} elements of {name} are NaN or infinite, the first at {where}"
