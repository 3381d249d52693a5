"""Bad input ends here: attention's checks, and those of what a backward pass has beside. Reads shapes, strides, dtypes
and addresses only."""

from torch import Tensor

from harness.catalog.entries import Technique
from harness.catalog.techniques import check_capability
from harness.operators.attention import validate as forward
from harness.operators.attention_backward.arguments import input_specs, output_specs
from harness.operators.attention_backward.problem import Problem
from harness.operators.protocol import Scalars, Tensors


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
    of_forward = {name: tensors[name] for name in ("q", "k", "v", "o", "lse")}
    forward.validate_launch(problem, of_forward, scalars)
    for name in ("do", *output_specs(problem)):
        _check(name, tensors[name], tensors["q"], specs[name].shape)
    for name in output_specs(problem):
        forward.check_overlap_within(name, tensors[name])
    forward.check_aliasing(dict(tensors), tuple(output_specs(problem)))
    check_capability(technique, capability)


def _check(name: str, tensor: Tensor, q: Tensor, shape: tuple[int, ...]) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: got {type(tensor).__name__}, expected a torch.Tensor")
    forward.check_memory(name, tensor)
    if tensor.dtype != q.dtype:
        raise TypeError(f"{name}.dtype: got {tensor.dtype}, expected {q.dtype} as q; convert it first")
    if tensor.device != q.device:
        raise ValueError(f"{name}.device: got {tensor.device}, expected {q.device} as q; use .to(q.device)")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name}.shape: got {tuple(tensor.shape)}, expected {shape} as compiled for")
    forward.check_no_gradient({name: tensor})
    forward.check_layout(name, tensor)
