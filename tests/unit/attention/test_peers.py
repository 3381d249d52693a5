"""Library peers that are not installed here, by stand-ins of their signatures; and what is said of broken ones."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import build, operators
from harness.build import compiling
from harness.catalog.cases import Case
from harness.measure import arenas
from harness.measure import gate as gates
from harness.operators.attention import inputs, reference
from harness.operators.attention.api import case_of
from harness.operators.attention.libraries import LIBRARIES
from harness.operators.attention.problem import Problem

PROBLEM = Problem(1, 2, 1, 64, 96, 64, "fp16", True, "bhsd")


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """What all of them return: o (batch, seq, heads, dim) and lse (batch, heads, seq)."""
    assert q.shape[:2] == (PROBLEM.batch, PROBLEM.seq_q), "(batch, seq, heads, dim)"
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    o, lse = reference.truth(q, k, v, scale=scale, causal=causal)
    return o.to(q.dtype).transpose(1, 2), lse.float()


def fa2(q: Any, k: Any, v: Any, dropout_p=0.0, softmax_scale=None, causal=False, return_attn_probs=False) -> Any:
    o, lse = attention(q, k, v, softmax_scale, causal)
    return (o, lse, None) if return_attn_probs else o


def fa3(q, k, v, softmax_scale=None, causal=False, qv=None, num_splits=1, return_attn_probs=False) -> Any:
    o, lse = attention(q, k, v, softmax_scale, causal)
    return (o, lse) if return_attn_probs else o


def fa4(q: Any, k: Any, v: Any, softmax_scale=None, causal=False, return_lse=False) -> Any:
    o, lse = attention(q, k, v, softmax_scale, causal)
    return o, lse if return_lse else None


@pytest.mark.parametrize(
    ("backend", "module", "function"),
    [
        ("fa2", "flash_attn.flash_attn_interface", fa2),
        ("fa3", "fa3_fwd_interface", fa3),
        ("fa4", "flash_attn.cute", fa4),
    ],
)
def test_a_peer_of_the_flash_layout_passes_the_gate(
    monkeypatch: pytest.MonkeyPatch, backend: str, module: str, function: Callable[..., Any]
) -> None:
    problem = replace(PROBLEM, dtype="bf16") if backend == "fa3" else PROBLEM
    for name in ("flash_attn", module):
        stand_in = ModuleType(name)
        stand_in.flash_attn_func = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, stand_in)
    assert backend in operators.peers()
    variant = build.PeerVariant(build.Case("peers", None, backend, problem, None))
    verdict = gates.gate(
        variant.launch, problem, distributions=("normal", "shifted"), seeds=(0,), device="cpu", peer=True
    )
    assert verdict.passed, verdict.reason
    made, out = arenas.make(problem, "normal", 0, "cpu"), arenas.make_outputs(problem, "cpu")
    o, lse = variant.bind({**made.tensors, **out.tensors}, made.scalars)().values()
    assert o.shape == out.tensors["o"].shape
    assert lse.shape == out.tensors["lse"].shape


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_sdpa_math_passes_the_gate(dtype: str) -> None:
    problem = Problem(1, 4, 2, 128, 128, 64, dtype, True, "bshd")
    variant = build.PeerVariant(build.Case("peers", None, "sdpa_math", problem, None))
    verdict = gates.gate(
        variant.launch, problem, distributions=tuple(inputs.DISTRIBUTIONS), seeds=(0,), device="cpu", peer=True
    )
    assert verdict.passed, verdict.reason
    assert variant.label == "no LSE"


def test_a_missing_library_and_a_broken_one_are_reasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "flash_attn", None)  # as if it were not installed
    for backend in ("fa2", "fa4"):
        library = LIBRARIES[backend]
        assert build.available(backend) == f"{library.name} is not installed: {library.install}"
    for name in ("flash_attn", "flash_attn.flash_attn_interface", "flash_attn.cute"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    broken = tmp_path / "flash_attn"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3c10')")
    for backend in ("fa2", "fa4"):
        reason = build.available(backend)
        assert reason is not None
        assert "does not import (ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c10)" in reason
        assert LIBRARIES[backend].install in reason


def test_fa3_declines_fp16() -> None:
    with pytest.raises(build.Unsupported, match="without kernels for fp16"):
        build.PeerVariant(build.Case("peers", None, "fa3", replace(PROBLEM, dtype="fp16"), None))


def test_a_peer_shares_the_exact_result_of_equal_inputs() -> None:
    def shared(distribution: str) -> bool:
        ours, theirs = (gates.expect(PROBLEM, distribution, 0, "cpu", peer=peer) for peer in (False, True))
        return ours is theirs

    assert shared("normal")
    assert not shared("negative_scores"), "a peer has another scale there"


def test_the_kernel_of_the_public_call_is_built_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(multi_processor_count=132, memory_bus_width=5120)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: gpu)
    built = list[Case]()
    monkeypatch.setattr(compiling, "gpu_arch", lambda: "sm_90a")
    monkeypatch.setattr(
        compiling.processes, "answers", lambda jobs, *_, **__: built.extend(case for _, (case, _) in jobs) or ()
    )
    compiling.prebuild(Case("calls", None, backend, PROBLEM, None) for backend in ("flash_attention", "sdpa_flash"))
    assert built == [case_of(PROBLEM, gpu)]
