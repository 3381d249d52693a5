"""Library peers that are not installed here, by stand-ins of their signatures; and what is said of broken ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import operators, variants
from harness.catalog.problem import Problem
from harness.measure import arenas
from harness.measure import gate as gates
from harness.operators.attention import inputs, reference
from harness.operators.attention.libraries import LIBRARIES

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


def fa3(q: Any, k: Any, v: Any, softmax_scale=None, causal=False, qv=None, return_attn_probs=False) -> Any:
    o, lse = attention(q, k, v, softmax_scale, causal)
    return (o, lse) if return_attn_probs else o


def fa4(q: Any, k: Any, v: Any, softmax_scale=None, causal=False, return_lse=False) -> Any:
    o, lse = attention(q, k, v, softmax_scale, causal)
    return o, lse if return_lse else None


@pytest.mark.parametrize(
    ("backend", "module", "function"),
    [
        ("fa2", "flash_attn.flash_attn_interface", fa2),
        ("fa3", "flash_attn_interface", fa3),
        ("fa4", "flash_attn.cute", fa4),
    ],
)
def test_a_peer_of_the_flash_layout_passes_the_gate(
    monkeypatch: pytest.MonkeyPatch, backend: str, module: str, function: Callable[..., Any]
) -> None:
    for name in ("flash_attn", module):
        stand_in = ModuleType(name)
        stand_in.flash_attn_func = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, stand_in)
    assert backend in operators.peers()
    variant = variants.PeerVariant(variants.Case("peers", None, backend, PROBLEM, None))
    verdict = gates.gate(
        variant.launch, PROBLEM, distributions=("normal", "shifted"), seeds=(0,), device="cpu", peer=True
    )
    assert verdict.passed, verdict.reason
    made, out = arenas.make(PROBLEM, "normal", 0, "cpu"), arenas.make_outputs(PROBLEM, "cpu")
    o, lse = variant.bind({**made.tensors, **out.tensors}, made.scalars)().values()
    assert o.shape == out.tensors["o"].shape
    assert lse.shape == out.tensors["lse"].shape


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_sdpa_math_passes_the_gate(dtype: str) -> None:
    problem = Problem(1, 4, 2, 128, 128, 64, dtype, True, "bshd")
    variant = variants.PeerVariant(variants.Case("peers", None, "sdpa_math", problem, None))
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
        assert variants.available(backend) == f"{library.name} is not installed: {library.install}"
    for name in ("flash_attn", "flash_attn_interface", "flash_attn.flash_attn_interface", "flash_attn.cute"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    broken = tmp_path / "flash_attn"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('flash_attn_2_cuda.so: undefined symbol: _ZN3c10')")
    for backend in ("fa2", "fa4"):
        reason = variants.available(backend)
        assert reason is not None
        assert "does not import (ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c10)" in reason
        assert LIBRARIES[backend].install in reason


FA3_STAND_IN = r"""
#include <stdint.h>
extern "C" const char* fa3_build_info() { return "a stand-in"; }
extern "C" int fa3_forward(const uint16_t* q, const uint16_t* k, const uint16_t* v, uint16_t* o, float* lse, int batch,
                           int heads, int heads_kv, int seq_q, int seq_kv, int head_dim, int causal,
                           const int64_t* strides, float scale, void*, int* counter, int zero_counter) {
  if (seq_kv == 1) return -5;  // any refusal
  const int64_t* o_strides = strides + 9;  // batch, sequence, head
  for (int b = 0; b < batch; ++b)
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < seq_q; ++i) {
        lse[(b * heads + h) * seq_q + i] = heads_kv * 1000 + head_dim + causal + scale;
        const int64_t at = b * strides[0] + i * strides[1] + h * strides[2];
        for (int d = 0; d < head_dim; ++d) o[b * o_strides[0] + i * o_strides[1] + h * o_strides[2] + d] = q[at + d];
      }
  return *counter || !zero_counter ? -6 : 0;
}
"""


@pytest.fixture
def fa3_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of the same functions: o = q, and an lse that tells the arguments."""
    source, library = tmp_path / "stand_in.cpp", tmp_path / "fa3.so"
    source.write_text(FA3_STAND_IN)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv("TWINKERNELS_FA3", str(library))
    return library


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_fa3_is_taken_from_the_library_that_is_named(fa3_stand_in: Path, layout: str) -> None:
    problem = Problem(2, 4, 2, 5, 7, 64, "bf16", True, layout)
    assert LIBRARIES["fa3"].fault() is None
    variant = variants.PeerVariant(variants.Case("peers", None, "fa3", problem, None))
    assert variant.compiler is not None
    assert variant.compiler["front_end"] == "a stand-in"
    made, out = arenas.make(problem, "normal", 0, "cpu"), arenas.make_outputs(problem, "cpu")
    o, lse = variant.bind({**made.tensors, **out.tensors}, {"scale": 0.5, "causal": True})().values()
    assert o is out.tensors["o"]
    assert torch.equal(o, made.tensors["q"])
    assert lse.unique().tolist() == [2000 + 64 + 1 + 0.5]


def test_what_the_named_library_does_not_take_is_a_reason(fa3_stand_in: Path) -> None:
    with pytest.raises(variants.Unsupported, match="TWINKERNELS_FA3 names takes bf16"):
        variants.PeerVariant(variants.Case("peers", None, "fa3", PROBLEM, None))
    problem = Problem(1, 2, 1, 5, 1, 64, "bf16")
    made, out = arenas.make(problem, "normal", 0, "cpu"), arenas.make_outputs(problem, "cpu")
    variant = variants.PeerVariant(variants.Case("peers", None, "fa3", problem, None))
    with pytest.raises(variants.LaunchError, match="fa3: a stride is no multiple of 8 elements"):
        variant.launch({**made.tensors, **out.tensors}, {"scale": 0.5, "causal": False})


def test_a_named_library_that_is_none_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINKERNELS_FA3", str(tmp_path / "fa3.so"))
    assert "TWINKERNELS_FA3: got" in (LIBRARIES["fa3"].fault() or "")
    (tmp_path / "empty.cpp").write_text("")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", tmp_path / "fa3.so", tmp_path / "empty.cpp"], check=True)
    assert "undefined symbol: fa3_forward" in (LIBRARIES["fa3"].fault() or "")
