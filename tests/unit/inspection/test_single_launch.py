"""The process that a tool watches: a CUDA kernel without torch, here on the CPU runtime in place of a GPU."""

import ctypes
import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cuda_kernels import cpu_build
from harness import build, operators
from harness.build import Case
from harness.catalog import techniques
from harness.inspection import single_launch
from harness.measure import arenas
from harness.operators.attention import inputs, reference
from harness.operators.attention.problem import Problem
from harness.operators.attention_backward import problem as backward
from harness.operators.gemm import problem as gemm
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.slow


def case(problem: Problem, technique: str = "lean_instructions") -> Case:
    tile = techniques.reference_tile(techniques.of_qualified(technique), problem.head_dim)
    return Case("sanitizer", technique, "cuda", problem, tile)


class HostDriver:
    """Device memory that is host memory; every allocation is kept in order."""

    def __init__(self) -> None:
        self.memory: list[ctypes.Array[ctypes.c_char]] = []

    def allocate(self, size: int) -> int:
        self.memory.append(ctypes.create_string_buffer(size))
        return ctypes.addressof(self.memory[-1])

    def upload(self, data: bytes) -> int:
        pointer = self.allocate(len(data))
        ctypes.memmove(pointer, data, len(data))
        return pointer

    def download(self, pointer: int, size: int) -> bytes:
        return ctypes.string_at(pointer, size)


def on_cpu(monkeypatch: pytest.MonkeyPatch) -> HostDriver:
    driver = HostDriver()

    def built(case: Case, arch: str, *, inline: bool) -> SimpleNamespace:
        assert (arch, inline) == ("sm_90a", False)
        path = cpu_build.HERE / f"{techniques.at(case.technique or '', case.problem).path}.cu"
        return SimpleNamespace(library=cpu_build.build(path, build.constants(case)))

    monkeypatch.setattr(build, "build_cuda", built)
    monkeypatch.setattr(single_launch, "Driver", lambda: driver)
    return driver


@pytest.mark.parametrize(
    "problem",
    [Problem(2, 4, 2, 113, 203, 64, "bf16", True, "bshd"), Problem(1, 2, 1, 203, 113, 128, "fp16", True)],
    ids=lambda problem: problem.slug,
)
def test_the_kernel_gets_what_the_problem_says(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = on_cpu(monkeypatch)
    single_launch.launch_cuda(case(problem), "sm_90a")

    def tensor(number: int, heads: int, rows: int) -> torch.Tensor:
        values = torch.frombuffer(driver.memory[number], dtype=inputs.DTYPES[problem.dtype])
        if problem.layout == "bshd":
            return values.view(problem.batch, rows, heads, problem.head_dim).transpose(1, 2)
        return values.view(problem.batch, heads, rows, problem.head_dim)

    q, o = (tensor(number, problem.heads, problem.seq_q) for number in (0, 3))
    k, v = (tensor(number, problem.heads_kv, problem.seq_kv) for number in (1, 2))
    assert 0.9 < q.float().std() < 1.1
    assert abs(q.float().mean()) < 0.05
    expected, _ = reference.truth(q, k, v, scale=problem.scale, causal=problem.causal)
    assert (o.double() - expected).abs().max() < 2e-2


def launched(problem: Any, technique: str, driver: HostDriver) -> list[torch.Tensor]:
    """Every tensor of a launch in fp64, inputs first, in the shapes of a packed problem."""
    operator = operators.of(problem)
    tile = techniques.reference_tile(techniques.at(technique, problem), problem.tile_key)
    single_launch.launch_cuda(Case("sanitizer", technique, "cuda", problem, tile), "sm_90a")
    specs = {**operator.input_specs(problem), **operator.output_specs(problem)}
    return [
        torch.frombuffer(memory, dtype=arenas.DTYPES[spec.dtype])[: math.prod(spec.shape)].view(spec.shape).double()
        for memory, spec in zip(driver.memory, specs.values(), strict=False)
    ]


def test_a_matrix_product_is_launched_as_its_problem_says(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = launched(gemm.Problem(128, 256, 64, "fp16"), "pingpong", on_cpu(monkeypatch))
    assert (c - a @ b.T).abs().max() < 2e-2


def test_a_backward_pass_is_launched_as_its_problem_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scratch memory holds NaN; lse and o are any numbers."""
    problem = backward.Problem(1, 2, 1, 128, 128, 64, "fp16")
    q, k, v, o, do, lse, dq, dk, dv = launched(problem, "overlapped", on_cpu(monkeypatch))
    p = torch.exp(problem.scale * q @ k.transpose(2, 3) - lse[..., None])
    ds = p * (do @ v.transpose(2, 3) - (do * o).sum(3, keepdim=True))
    expected = {
        "dq": problem.scale * ds @ k,
        "dk": problem.scale * (ds.transpose(2, 3) @ q).sum(1, keepdim=True),
        "dv": (p.transpose(2, 3) @ do).sum(1, keepdim=True),
    }
    for name, got in zip(expected, (dq, dk, dv), strict=True):
        assert (got - expected[name]).abs().max() < 4e-3 * expected[name].abs().max(), name


def test_a_kernel_gets_the_workspace_that_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = on_cpu(monkeypatch)
    problem = Problem.square(1, 2, 128, 64, causal=True)
    single_launch.launch_cuda(case(problem, "persistent"), "sm_90a")
    *_, counter = driver.memory
    assert len(counter) == 4
    assert not any(bytes(counter)), "zero before the launch, and again after it"


def test_a_kernel_that_writes_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = on_cpu(monkeypatch)
    monkeypatch.setattr(driver, "download", lambda pointer, size: bytes(size))
    answer = single_launch.outcome(case(Problem.square(1, 1, 128, 64)), "sm_90a")
    assert answer["status"] != "passed"
    assert "nothing but zeros" in answer["reason"]


def test_a_declined_case_is_unsupported() -> None:
    answer = single_launch.outcome(case(Problem.square(1, 1, 100, 64), "scalar"), "sm_90a")
    assert answer["status"] == "unsupported"
    assert "multiples of the tile" in answer["reason"]


def test_it_does_not_import_torch() -> None:
    """Under a tool that costs more than the kernel."""
    program = "import sys, harness.inspection.single_launch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT).returncode == 0
