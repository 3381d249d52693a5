"""Runs a CUDA twin of attention's backward pass on the CPU, with all checks and every tensor watched."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import torch

from cuda_kernels import cpu_build, patched
from cuda_kernels.cpu_library import Library
from harness import operators
from harness.build.cuda import workspace_bytes
from harness.build.cuda_on_cpu import left_in
from harness.catalog import techniques
from harness.operators.attention_backward.problem import Problem
from tests.support.products import Named

OUTPUTS = ("dq", "dk", "dv")


def library(name: str, problem: Problem, root: Path = cpu_build.HERE) -> Library:
    """The library of a technique for this problem at its reference tile."""
    technique = techniques.of_qualified(f"attention_backward/{name}")
    tile = techniques.reference_tile(technique, problem.tile_key)
    constants = operators.get("attention_backward").defines(problem, tile, constant_strides=False)
    return Library(cpu_build.build(patched.kernel_file(technique.path, root), constants, root=root))


def launcher(library: Library, problem: Problem, *seeds: int) -> Callable[[Any, Any], None]:
    """A launch as the gate asks for it, by the scheduler's seeds in turn, with scratch memory full of NaN; it raises
    Named."""
    turns = cycle(seeds or (0,))
    operator = operators.get("attention_backward")
    scratch, size = operator.scratch_bytes(problem), workspace_bytes(library.handle, problem)

    def launch(tensors: Any, scalars: Any) -> None:
        library.configure(seed=next(turns))
        workspace = torch.zeros(scratch + size, dtype=torch.uint8)
        workspace[:scratch] = 0xFF
        for name, tensor in {**tensors, "workspace": workspace}.items():
            place = name, tensor.data_ptr(), tensor.element_size(), tensor.shape, tensor.stride()
            library.watch(*place, written=name in OUTPUTS, scratch=name == "workspace")
        code = library.launch(ctypes.byref(operator.structure(tensors, scalars, workspace)), None)
        library.forget()
        if said := library.diagnosis().splitlines() + left_in(workspace, scratch):
            raise Named("\n".join(said))
        assert code == 0

    return launch
