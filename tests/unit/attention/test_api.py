"""`from harness import flash_attention`: bad input ends in a sentence, good input in the table's kernel."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness import flash_attention
from harness.build import LaunchError
from harness.catalog import sources, techniques, tiles
from harness.catalog.entries import Tile
from harness.operators.attention import api as plain
from harness.operators.attention.problem import Problem
from tests.support.launches import gate


def tensors(
    *, device: str = "cpu", dtype: torch.dtype = torch.bfloat16, heads: int = 4, heads_kv: int = 2, head_dim: int = 64
) -> dict[str, Any]:
    shapes = {"q": (2, heads, 80, head_dim), "k": (2, heads_kv, 96, head_dim), "v": (2, heads_kv, 96, head_dim)}
    return {name: torch.zeros(shape, dtype=dtype, device=device) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"q": [[1.0]]}, TypeError, "q: got list, expected a torch.Tensor"),
        ({"v": None}, TypeError, "v: got NoneType, expected a torch.Tensor"),
        (tensors(dtype=torch.float32), TypeError, r"q.dtype: got torch.float32, expected torch.float16 or torch.bfl"),
        (
            {"k": tensors(dtype=torch.float16)["k"]},
            TypeError,
            r"k.dtype: got torch.float16, expected torch.bfloat16 as",
        ),
        (tensors(head_dim=96), ValueError, r"q.shape: got head_dim = 96, expected one of \(64, 128, 256\)"),
        ({"k": tensors(device="meta")["k"]}, ValueError, "k.device: got meta, expected cpu as q"),
        (tensors(heads=5), ValueError, "k.shape: got 2 heads, expected a divisor of q's 5 heads"),
        (
            {"q": torch.zeros(2, 80, 64)},
            ValueError,
            r"q.shape: got \(2, 80, 64\), expected \(batch, heads, seq, head_d",
        ),
        ({"q": torch.zeros(2, 4, 0, 64).bfloat16()}, ValueError, "q.shape: got seq = 0, expected 1 to"),
        ({"q": torch.zeros(2, 4, 80, 0).bfloat16()}, ValueError, r"q.shape: got \(2, 4, 80, 0\), expected"),
        ({"k": torch.zeros(2, 2, 64, 96).bfloat16().mT}, ValueError, r"k.stride\(-1\): got 96, expected 1"),
        (
            {"v": torch.zeros(2, 2, 96, 68).bfloat16()[..., :64]},
            ValueError,
            r"v.stride\(\): got 68 for seq, expected a m",
        ),
        ({"k": torch.zeros(2, 2, 1, 64).bfloat16().expand(2, 2, 96, 64)}, ValueError, r"k.stride\(\): got 0 for seq"),
        ({"scale": 0.0}, ValueError, "scale: got 0.0, expected finite and positive"),
        ({"causal": 1}, TypeError, "causal: got int, expected True or False"),
        ({}, ValueError, r"q.device: got cpu, expected a CUDA GPU \(Hopper\)"),
        ({"k": torch.nested.nested_tensor([torch.zeros(2, 96, 64)])}, ValueError, "k: got a nested tensor, expected"),
        (
            {"v": torch.zeros(2, 2, 96, 64).to_sparse()},
            ValueError,
            "v.layout: got torch.sparse_coo, expected torch.strided",
        ),
        (tensors(device="meta"), ValueError, r"q.device: got meta, expected a CUDA GPU \(Hopper\)"),
    ],
)
def test_bad_input_ends_in_a_sentence(wrong: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^{words}"):
        flash_attention(**(tensors() | wrong))


def test_each_class_of_length_has_its_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"d64-full-short": Tile(128, 128, 2, 8), "d64-full": Tile(192, 128, 3, 12)}

    def best_tile(_name: str, _backend: str, problem: Problem, gpu: str | None) -> Tile | None:
        found = {("flagship", "cuda", cell): tile for cell, tile in table.items()} if gpu == "h200" else {}
        return tiles.pick(found, "flagship", "cuda", problem)

    monkeypatch.setattr(tiles, "best_tile", best_tile)
    short, middle, long = (Problem.square(2, 4, seq, 64) for seq in (1024, 4096, 16_384))
    assert plain.case_of(short, "h200").tile == table["d64-full-short"]
    assert plain.case_of(middle, "h200") == plain.case_of(long, "h200")
    assert plain.case_of(long, "h200").tile == table["d64-full"]
    for head_dim in (64, 128, 256):
        reference = techniques.reference_tile(techniques.get("flagship"), head_dim)
        assert plain.case_of(Problem.square(1, 1, 512, head_dim), "h100").tile == reference


class Kernel:
    """One that says what it was launched with."""

    workspace_bytes = 4

    def __init__(self, code: int = 0) -> None:
        self.code, self.calls = code, 0

    def entry(self, _args: Any, stream: int) -> int:
        self.calls, self.stream = self.calls + 1, stream
        return self.code


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A pretended H200, whose memory is the CPU's; the cases that were loaded for it."""
    loaded: list[Any] = []

    def load(case: Any) -> Kernel:
        loaded.append(case)
        return Kernel()

    plain._kernel.cache_clear()
    monkeypatch.setattr(plain, "load", load)
    monkeypatch.setattr(plain, "CudaVariant", Kernel)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=77))
    return loaded


def test_a_kernel_is_loaded_once_and_launched_on_the_callers_stream(loads: list[Any]) -> None:
    given = tensors()
    given["q"] = given["q"].transpose(1, 2).contiguous().transpose(1, 2)
    for _ in range(3):
        o, lse = flash_attention(**given)
    assert (o.shape, o.dtype, o.stride()) == (given["q"].shape, torch.bfloat16, given["q"].stride())
    assert (lse.shape, lse.dtype) == ((2, 4, 80), torch.float32)
    assert len(loads) == 1
    kernel = plain._kernel(given["q"].device.index, loads[0])
    assert (kernel.calls, kernel.stream) == (3, 77)  # type: ignore[attr-defined]
    flash_attention(**tensors(heads=6, heads_kv=3))
    assert len(loads) == 1
    flash_attention(**given, causal=True)
    flash_attention(**tensors(dtype=torch.float16))
    assert [(case.problem.dtype, case.problem.causal) for case in loads[1:]] == [("bf16", True), ("fp16", False)]


def test_an_error_of_cuda_is_said(loads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "load", lambda _: Kernel(719))
    monkeypatch.setattr(torch.cuda, "CudaError", lambda code: f"error {code}", raising=False)
    with pytest.raises(LaunchError, match=r"flash_attention of b2-h4k2-q80k96-d64-bf16-full: error 719"):
        flash_attention(**tensors())


def test_another_gpu_is_refused(loads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    with pytest.raises(ValueError, match=r"^GPU: got compute capability 8.0, too old for flagship \(hopper\)"):
        flash_attention(**tensors())
    assert loads == []


def test_importing_it_loads_no_torch() -> None:
    program = "import sys; from harness import flash_attention; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=sources.ROOT).returncode == 0


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_on_a_gpu_it_is_attention(head_dim: int, causal: bool) -> None:
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("no Hopper GPU")
    problem = Problem(2, 4, 2, 333, 571, head_dim, "bf16", causal)

    def launch(q: Any, k: Any, v: Any, o: Any, lse: Any, *, scale: float, causal: bool) -> None:
        found = flash_attention(q, k, v, causal=causal, scale=scale)
        o.copy_(found[0]), lse.copy_(found[1])

    verdict = gate(launch, problem, device="cuda")
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"
