"""Runs a CUDA twin of a matrix product on the CPU, with all checks and every tensor watched."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import torch

from cuda_kernels import cpu_build
from cuda_kernels.cpu_library import Library
from harness import operators
from harness.build.cuda import workspace_bytes
from harness.build.cuda_on_cpu import left_in
from harness.catalog import techniques
from harness.operators.gemm.problem import Problem


class Named(Exception):
    """A diagnosis of the CPU runtime."""


def library(name: str, problem: Problem, root: Path = cpu_build.HERE) -> Library:
    """The library of a technique for this problem at its reference tile."""
    technique = techniques.of_qualified(f"gemm/{name}")
    tile = techniques.reference_tile(technique, problem.tile_key)
    constants = operators.get("gemm").defines(problem, tile, constant_strides=False)
    return Library(cpu_build.build(root / f"{technique.path}.cu", constants, root=root))


def launcher(library: Library, problem: Problem, *seeds: int) -> Callable[[Any, Any], None]:
    """A launch as the gate asks for it, by the scheduler's seeds in turn; it raises Named."""
    turns = cycle(seeds or (0,))
    workspace = torch.zeros(workspace_bytes(library.handle, problem), dtype=torch.uint8)

    def launch(tensors: Any, scalars: Any) -> None:
        library.configure(seed=next(turns))
        for name, tensor in {**tensors, **({"workspace": workspace} if len(workspace) else {})}.items():
            place = name, tensor.data_ptr(), tensor.element_size(), tensor.shape, tensor.stride()
            library.watch(*place, written=name == "c", scratch=name == "workspace")
        arguments = operators.get("gemm").structure(tensors, scalars, workspace)
        code = library.launch(ctypes.byref(arguments), None)
        library.forget()
        if said := library.diagnosis().splitlines() + left_in(workspace):
            raise Named("\n".join(said))
        assert code == 0

    return launch
