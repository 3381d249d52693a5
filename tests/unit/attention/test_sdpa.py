"""The flagship as an implementation of PyTorch's flash attention: what torch asks for, what is refused, training."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import attention

from harness import register_flash_attention
from harness.measure.gate import gate as gate_of_any
from harness.operators.attention import reference, sdpa
from harness.operators.attention.problem import Problem
from harness.operators.attention_backward import problem as backward_problem
from harness.operators.attention_backward import reference as backward_reference
from harness.operators.errors import Unsupported
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
def truth(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Both kernels' places are taken by what they should compute; a list of what is asked of the second's bits."""
    asked: list[bool] = []

    def attend(q: Any, k: Any, v: Any, *, causal: bool, scale: float | None) -> Any:
        o, lse = reference.truth(q, k, v, causal=causal, scale=scale or q.shape[-1] ** -0.5)
        return torch.empty_like(q).copy_(o), lse.to(torch.promote_types(torch.float32, q.dtype))

    def launch(d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *options: Any) -> Any:
        causal, scale, steady = options
        asked.append(steady)
        given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": d_o}
        found = backward_reference.truth(given, scale=scale, causal=causal).values()
        return tuple(torch.empty_like(of).copy_(one) for of, one in zip((q, k, v), found, strict=True))

    monkeypatch.setattr(sdpa, "flash_attention", attend)
    monkeypatch.setattr(sdpa.backward, "launch", launch)
    return asked


@pytest.fixture
def on_a_cpu(truth: list[bool]) -> Iterator[list[bool]]:
    """Both operators of ATen, of CPU tensors."""
    handle = sdpa.Handle("CPU")
    yield truth
    handle.remove()


def of_aten(q: Tensor, k: Tensor, v: Tensor, causal: bool = True, scale: float | None = None) -> Tensor:
    found: Tensor = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scale)[0]
    return found


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


def test_it_gives_what_the_operator_of_torch_gives(truth: list[bool]) -> None:
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
    ],
)
def test_what_no_kernel_does_is_refused(truth: list[bool], options: dict[str, Any], said: str) -> None:
    q, k, v = tensors()
    options = dict(options)
    q = q[:, :, : options.pop("seq", 96)]
    with pytest.raises(NotImplementedError, match=f"^twinkernels: {said}"):
        sdpa.scaled_dot_product(q, k, v, **options)


def test_a_gradient_that_no_kernel_has_is_refused_in_the_forward_pass(truth: list[bool]) -> None:
    q = torch.zeros(1, 1, 8, 256, dtype=torch.bfloat16, requires_grad=True)
    with pytest.raises(Unsupported, match="head_dim 256: dK and dV"):
        sdpa.scaled_dot_product(q, q, q)
    with torch.no_grad():
        assert not sdpa.scaled_dot_product(q, q, q)[0].requires_grad


@pytest.mark.parametrize("scale", [None, 0.3])
def test_autograd_of_torch_comes_to_its_gradients(on_a_cpu: list[bool], scale: float | None) -> None:
    sizes = (4, 2, 2)
    q, k, v = (torch.randn(1, heads, 6, 4, dtype=torch.float64, requires_grad=True) for heads in sizes)
    assert torch.autograd.gradcheck(lambda *given: of_aten(*given, scale=scale), (q, k, v), check_undefined_grad=False)
    assert set(on_a_cpu) == {False}


def test_bits_repeat_where_torch_is_deterministic(on_a_cpu: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    q, k, v = tensors(requires_grad=True)
    of_aten(q, k, v).sum().backward()
    assert on_a_cpu == [True]


@pytest.mark.slow
@pytest.mark.usefixtures("inductor")
def test_a_compiled_training_step_comes_to_both(on_a_cpu: list[bool]) -> None:
    """Inductor holds outputs to the strides that torch predicts for its own operators. Nothing else is in the step: g++
    has nothing to compile."""
    wide = torch.randn(2, 96, 4, 4, 64, dtype=torch.bfloat16)
    *given, d_o = wide.permute(2, 0, 3, 1, 4)
    given = [one.requires_grad_() for one in given]
    expected = torch.autograd.grad(of_aten(*given), given, d_o)
    compiled = torch.compile(lambda *given: of_aten(*given), fullgraph=True)
    found = torch.autograd.grad(compiled(*given), given, d_o)
    assert len(on_a_cpu) == 2
    for one, other in zip(found, expected, strict=True):
        assert one.stride() == other.stride()
        torch.testing.assert_close(one, other)


def sdpa_of_torch(q: Any, k: Any, v: Any, o: Any, lse: Any, *, scale: float, causal: bool) -> None:
    with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
        o.copy_(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The mask of each call that reached our kernel."""
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


@pytest.mark.gpu(9)
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


@pytest.mark.gpu(9)
@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("steady", [False, True], ids=["bits vary", "bits repeat"])
def test_on_a_gpu_sdpa_trains(calls: list[bool], monkeypatch: pytest.MonkeyPatch, compiles: bool, steady: bool) -> None:
    """Grouped heads, (batch, seq, heads, head_dim) in memory, and both kernels of ours in it."""
    launch, launched = sdpa.backward.launch, []

    def watched(*given: Any) -> Any:
        launched.append(given[-1])
        return launch(*given)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    monkeypatch.setattr(sdpa.backward, "launch", watched)
    step = torch.compile(attend, fullgraph=True) if compiles else attend

    def gradients(given: Any, scalars: Any) -> None:
        q, k, v = (given[name].detach().requires_grad_() for name in ("q", "k", "v"))
        torch.use_deterministic_algorithms(steady)
        try:
            with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
                found = torch.autograd.grad(step(q, k, v), (q, k, v), given["do"])
        finally:
            torch.use_deterministic_algorithms(False)
        for name, gradient in zip(("dq", "dk", "dv"), found, strict=True):
            given[name].copy_(gradient)

    handle = sdpa.Handle()
    try:
        problem = backward_problem.Problem(2, 4, 2, 500, 500, 64, "bf16", True, "bshd")
        verdict = gate_of_any(gradients, problem, peer=True, distributions=("normal",))
    finally:
        handle.remove()
    assert verdict.passed, verdict.reason
    assert set(calls) == {True}
    assert set(launched) == {steady}


@pytest.mark.gpu(9)
@has_registry
@pytest.mark.parametrize("causal", [False, True])
def test_on_a_gpu_sdpa_runs_it(calls: list[bool], causal: bool) -> None:
    attention.activate_flash_attention_impl(register_flash_attention())
    try:
        require_right(causal)
    finally:
        attention.restore_flash_attention_impl()
    assert set(calls) == {causal}
