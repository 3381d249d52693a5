"""Bad input ends here: attention's checks, and those of what a backward pass has beside. Reads shapes, strides, dtypes
and addresses only."""

from harness.operators.attention import validate as forward
from harness.operators.attention_backward.arguments import input_specs, output_specs
from harness.operators.attention_backward.problem import Problem
from harness.operators.memory import check_compiled_for
from harness.operators.protocol import Scalars, Tensors


def validate(problem: Problem, tensors: Tensors, scalars: Scalars) -> None:
    """Returns when every kernel takes these tensors; the first one that none takes raises TypeError or ValueError."""
    specs = {**input_specs(problem), **output_specs(problem)}
    check_compiled_for(problem, tensors, specs)
    of_forward = {name: tensors[name] for name in ("q", "k", "v", "o", "lse")}
    forward.validate_launch(problem, of_forward, scalars)
    for name in ("do", *output_specs(problem)):
        forward.check_layout(name, tensors[name])
    for name in output_specs(problem):
        forward.check_overlap_within(name, tensors[name])
    forward.check_aliasing(dict(tensors), tuple(output_specs(problem)))
