"""The flagship as an implementation of PyTorch's flash attention: what torch asks for, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import attention

from harness import register_flash_attention
from harness.operators.attention import reference, sdpa
from harness.operators.attention.problem import Problem
from tests.support.launches import gate

has_registry = pytest.mark.skipif(
    not hasattr(attention, "register_flash_attention_impl"),
    reason=f"torch {torch.__version__} has no register_flash_attention_impl; 2.13 has",
)


def tensors(**options: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    k = torch.randn(2, 2, 96, 64, dtype=torch.bfloat16)
    return torch.randn(2, 4, 96, 64, dtype=torch.bfloat16, **options), k, torch.randn_like(k)


@pytest.fixture
def truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's place is taken by what it should compute."""

    def attend(q: Any, k: Any, v: Any, *, causal: bool, scale: float | None) -> Any:
        o, lse = reference.truth(q, k, v, causal=causal, scale=scale or q.shape[-1] ** -0.5)
        return o.to(q.dtype), lse.float()

    monkeypatch.setattr(sdpa, "flash_attention", attend)


@has_registry
def test_torch_knows_it_by_name_and_lets_it_go_again() -> None:
    assert register_flash_attention() == "twinkernels"
    assert "twinkernels" in attention.list_flash_attention_impls()
    attention.activate_flash_attention_impl("twinkernels")
    assert attention.current_flash_attention_impl() == "twinkernels"
    attention.restore_flash_attention_impl()
    assert attention.current_flash_attention_impl() is None


def test_an_older_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(attention, "register_flash_attention_impl", raising=False)
    with pytest.raises(RuntimeError, match=r"^torch: got .*, which takes no implementation"):
        register_flash_attention()


def test_it_gives_what_the_operator_of_torch_gives(truth: None) -> None:
    q, k, v = tensors()
    o, lse, *rest = sdpa.scaled_dot_product(q, k, v, 0.0, True, scale=0.1)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.1, enable_gqa=True)
    torch.testing.assert_close(o, expected, atol=0.02, rtol=0.02)
    assert (lse.shape, lse.dtype) == ((2, 4, 96), torch.float32)
    assert rest[:4] == [None, None, 96, 96]
    names = [one.name for one in torch.ops.aten._scaled_dot_product_flash_attention.default._schema.returns]
    assert len(names) == len((o, lse, *rest))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dropout_p": 0.1}, "dropout_p: got 0.1, expected 0.0"),
        ({"return_debug_mask": True}, "return_debug_mask: got True, expected False"),
        ({"is_causal": True, "seq": 64}, "is_causal: got True with 64 queries and 96 keys, expected equal lengths"),
        ({"requires_grad": True}, r"requires_grad: got True, expected False or torch.no_grad\(\)"),
    ],
)
def test_what_no_kernel_does_is_refused(truth: None, options: dict[str, Any], said: str) -> None:
    q, k, v = tensors(requires_grad=options.pop("requires_grad", False))
    q = q[:, :, : options.pop("seq", 96)]
    with pytest.raises(NotImplementedError, match=f"^twinkernels: {said}"):
        sdpa.scaled_dot_product(q, k, v, **options)


def test_without_gradients_to_come_a_leaf_is_taken(truth: None) -> None:
    q, k, v = tensors(requires_grad=True)
    with torch.no_grad():
        assert not sdpa.scaled_dot_product(q, k, v)[0].requires_grad


def sdpa_of_torch(q: Any, k: Any, v: Any, o: Any, lse: Any, *, scale: float, causal: bool) -> None:
    with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
        o.copy_(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The mask of each call that reached our kernel, on a GPU that has one."""
    if torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("no Hopper GPU")
    seen: list[bool] = []
    kernel = sdpa.flash_attention

    def attend(*arguments: Any, causal: bool, **options: Any) -> Any:
        seen.append(causal)
        return kernel(*arguments, causal=causal, **options)

    monkeypatch.setattr(sdpa, "flash_attention", attend)
    return seen


def require_right(causal: bool) -> None:
    problem = Problem.square(2, 4, 512, 128, causal=causal)
    verdict = gate(sdpa_of_torch, problem, distributions=("normal",), device="cuda", peer=True)
    assert verdict.passed, verdict.reason


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_the_operator_of_any_torch_is_taken_and_given_back(calls: list[bool], causal: bool) -> None:
    """What the registry of a newer torch does with the handle, without it."""
    handle = sdpa.Handle()
    try:
        require_right(causal)
    finally:
        handle.remove()
    assert set(calls) == {causal}
    calls.clear()
    require_right(causal)
    assert calls == []


@pytest.mark.gpu
@has_registry
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_sdpa_runs_it(calls: list[bool], causal: bool) -> None:
    attention.activate_flash_attention_impl(register_flash_attention())
    try:
        require_right(causal)
    finally:
        attention.restore_flash_attention_impl()
    assert set(calls) == {causal}
