"""Runs a CUDA twin on the CPU, with all checks and every tensor watched."""

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from cuda_kernels import cpu_build, patched
from cuda_kernels.cpu_library import Library
from harness import operators
from harness.build.cuda import unzeroed_bytes, workspace_bytes
from harness.build.cuda_on_cpu import left_in
from harness.catalog import techniques
from harness.measure import arenas
from harness.operators.attention import inputs
from harness.operators.attention.arguments import structure
from harness.operators.attention.problem import Problem
from harness.operators.protocol import Sample

MAP_NORESERVE = 0x4000  # of Linux; Python's mmap has it from 3.13 on


def apart(sample: Sample) -> list[Tensor]:
    """q, k, v and an unwritten o, each in the first columns of a wider matrix with a row per token, as a projection
    gives them: no two have the same stride between rows. NaN in the other columns."""
    tensors = []
    for number, tensor in enumerate((*sample.tensors.values(), torch.full_like(sample.tensors["q"], torch.nan)), 1):
        batch, heads, seq, head_dim = tensor.shape
        storage = tensor.new_full((batch, seq, heads * head_dim + 8 * number), torch.nan)
        columns = storage[..., : heads * head_dim].unflatten(-1, (heads, head_dim)).transpose(1, 2)
        tensors.append(columns.copy_(tensor))
    return tensors


def with_strides(tensor: Tensor, strides: tuple[int, ...]) -> Tensor:
    """The tensor with these strides, however large: addresses alone, as a page is there once something is written to
    it."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    pages = mmap.mmap(-1, elements * tensor.element_size(), flags=flags)
    return torch.frombuffer(pages, dtype=tensor.dtype).as_strided(tensor.shape, strides).copy_(tensor)


def far_apart(sample: Sample) -> list[Tensor]:
    """The same with heads and batches more than 2^31 elements apart."""
    tensors = []
    for number, tensor in enumerate((*sample.tensors.values(), torch.full_like(sample.tensors["q"], torch.nan)), 1):
        between = 2**31 + 64 * number
        tensors.append(with_strides(tensor, (tensor.shape[1] * between, between, tensor.shape[3], 1)))
    return tensors


@dataclass
class Run:
    """What a launch gave: o and lse, and the diagnosis (empty when there is none)."""

    o: Tensor
    lse: Tensor
    code: int
    diagnosis: str
    library: Library


def build(name: str, problem: Any, sanitize: bool = False) -> Library:
    """The library of technique `name` of the problem's operator at its reference tile."""
    technique = techniques.at(name, problem)
    tile = techniques.reference_tile(technique, problem.tile_key)
    constants = operators.of(problem).defines(problem, tile, constant_strides=False)
    return Library(cpu_build.build(patched.kernel_file(technique.path), constants, sanitize=sanitize))


def watch(library: Library, label: str, tensor: Tensor, use: str) -> None:
    """`use`: in, out or scratch."""
    place = tensor.data_ptr(), tensor.element_size(), tensor.shape, tensor.stride()
    library.watch(label, *place, written=use == "out", scratch=use == "scratch")


def launch_far_apart(library: Library, problem: Problem) -> tuple[Tensor, Tensor]:
    """o and lse of one launch on `far_apart` tensors, which are not watched: that takes a byte for every element from
    the first to the last."""
    q, k, v, o = far_apart(inputs.sample(problem, "normal", 0, "cpu"))
    lse = torch.full(q.shape[:3], torch.nan)
    workspace = torch.zeros(workspace_bytes(library.handle, problem), dtype=torch.uint8)
    args = structure({"q": q, "k": k, "v": v, "o": o, "lse": lse}, {"scale": problem.scale}, workspace)
    library.configure()
    assert not library.launch(ctypes.byref(args), None)
    assert not library.diagnosis()
    return o, lse


def run(
    name: str,
    problem: Problem,
    *,
    library: Library | None = None,
    sanitize: bool = False,
    distribution: str = "normal",
    **options: Any,
) -> Run:
    """Builds technique `name`, where its library is not given, and launches it once, with all checks and every tensor
    watched; `options` are those of Library.configure."""
    library = library or build(name, problem, sanitize)
    library.configure(**options)
    given = arenas.make(problem, distribution, 0, "cpu", padded=True)
    outputs = arenas.make_outputs(problem, "cpu", padded=True)
    tensors = {**given.tensors, **outputs.tensors}
    workspace = torch.zeros(workspace_bytes(library.handle, problem), dtype=torch.uint8)
    uses = {"o": "out", "lse": "out", "workspace": "scratch"}
    for label, tensor in {**tensors, "workspace": workspace}.items():
        watch(library, label, tensor, uses.get(label, "in"))
    args = structure(tensors, given.scalars, workspace)
    code = library.launch(ctypes.byref(args), None)
    library.forget()
    said = library.diagnosis().splitlines() + left_in(workspace, unzeroed_bytes=unzeroed_bytes(library.handle, problem))
    return Run(outputs.tensors["o"], outputs.tensors["lse"], code, "\n".join(said), library)


class Named(Exception):
    """A diagnosis of the CPU runtime."""


def launcher(library: Library, problem: Any, *seeds: int) -> Callable[[Any, Any], None]:
    """A launch as the gate asks for it, by the scheduler's seeds in turn, with scratch memory full of NaN; it raises
    Named."""
    turns = cycle(seeds or (0,))
    operator = operators.of(problem)
    scratch, size = operator.scratch_bytes(problem), workspace_bytes(library.handle, problem)
    workspace = torch.zeros(scratch + size, dtype=torch.uint8)
    outputs, unzeroed = operator.output_specs(problem), unzeroed_bytes(library.handle, problem)

    def launch(tensors: Any, scalars: Any) -> None:
        library.configure(seed=next(turns))
        workspace[:scratch] = 0xFF
        for name, tensor in tensors.items():
            watch(library, name, tensor, "out" if name in outputs else "in")
        if len(workspace):
            watch(library, "workspace", workspace, "scratch")
        code = library.launch(ctypes.byref(operator.structure(tensors, scalars, workspace)), None)
        library.forget()
        if said := library.diagnosis().splitlines() + left_in(workspace, scratch, unzeroed):
            raise Named("\n".join(said))
        assert code == 0

    return launch
