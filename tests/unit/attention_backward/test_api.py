"""Gradients of `flash_attention`: autograd comes to the backward kernel with what it needs, once, and not twice."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from cuda_kernels import cpu_build, patched
from cuda_kernels.cpu_library import Library
from harness import flash_attention
from harness.build import Unsupported
from harness.build.cuda import constants, workspace_bytes
from harness.catalog import techniques
from harness.measure import gate
from harness.operators.attention import api as forward
from harness.operators.attention import workspaces
from harness.operators.attention.reference import truth
from harness.operators.attention_backward import api, arguments, reference
from harness.operators.attention_backward.ladders import hopper
from harness.operators.attention_backward.problem import Problem


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Both kernels' places are taken by what they should compute; a list of what is asked of the second's bits."""
    asked: list[bool] = []

    def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
        return truth(q, k, v, causal=causal, scale=q.shape[-1] ** -0.5 if scale is None else scale)

    def launch(
        d_o: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float, steady: bool
    ) -> Any:
        assert scale > 0
        asked.append(steady)
        tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": d_o}
        return tuple(reference.truth(tensors, scale=scale, causal=causal).values())

    monkeypatch.setattr(forward, "_attend", attend)
    monkeypatch.setattr(api, "launch", launch)
    return asked


def tensors(heads: int = 2, heads_kv: int = 1, seq_q: int = 5, seq_kv: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = ((heads, seq_q), (heads_kv, seq_kv), (heads_kv, seq_kv))
    drawn = (torch.randn(1, *size, 4, dtype=torch.float64, generator=generator) for size in sizes)
    q, k, v = (tensor.requires_grad_() for tensor in drawn)
    return q, k, v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.3, -0.7, 0.0])
def test_gradients_are_those_of_differences(exact: list[bool], causal: bool, scale: float | None) -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flash_attention(q, k, v, causal=causal, scale=scale)[0]

    assert torch.autograd.gradcheck(attend, tensors())
    assert exact


def test_heads_that_are_expanded_get_the_sum(exact: list[bool]) -> None:
    q, k, v = tensors(heads=4)
    wide = flash_attention(q, k.expand(1, 4, 7, 4), v.expand(1, 4, 7, 4))[0]
    narrow = flash_attention(q, k, v)[0]
    found, expected = (torch.autograd.grad(o.square().sum(), (q, k, v)) for o in (wide, narrow))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_gradient_is_deterministic_where_it_is_asked_to_be(exact: list[bool]) -> None:
    q, k, v = tensors()
    for deterministic in (False, True):
        flash_attention(q, k, v, deterministic=deterministic)[0].sum().backward()
    assert exact == [False, True]


def test_a_gradient_is_deterministic_where_pytorch_is(exact: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    q, k, v = tensors()
    flash_attention(q, k, v)[0].sum().backward()
    assert exact == [True]


def test_a_gradient_of_its_gradient_is_refused_by_name(exact: list[bool]) -> None:
    q, k, v = tensors()
    (first,) = torch.autograd.grad(flash_attention(q, k, v)[0].sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"^flash_attention: got a gradient of its gradient"):
        first.sum().backward()


def of_both(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    o, lse = flash_attention(q, k, v, causal=True, scale=0.3)
    return o.square().sum() + lse.sin().sum()


@pytest.mark.parametrize("scale", [None, -0.7, 0.0])
def test_lse_has_gradients_too(exact: list[bool], scale: float | None) -> None:
    def lse(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flash_attention(q, k, v, scale=scale)[1]

    assert torch.autograd.gradcheck(lse, tensors())
    assert torch.autograd.gradcheck(of_both, tensors(seq_q=7))


def test_the_gradient_of_lse_is_finer_than_its_dtype() -> None:
    q, v = torch.zeros(1, 2, 5, 64).bfloat16(), torch.ones(1, 1, 7, 64).bfloat16()
    d_lse = torch.randn(1, 2, 5)
    d_o, _, _, ones, o = api._for_lse(d_lse, q, v, v)
    torch.testing.assert_close((d_o.float() @ ones.float().mT)[..., 3], d_lse, atol=0, rtol=2**-15)
    assert not o.any()


def test_a_value_that_is_not_used_has_no_gradient(exact: list[bool]) -> None:
    q, k, v = tensors()
    o, lse = flash_attention(q, k, v)
    assert torch.autograd.grad(lse.sum(), v, retain_graph=True)[0].abs().max() == 0
    exact.clear()
    o.sum().backward()
    assert len(exact) == 1, "a pass for lse that nobody asked for"


def of_o(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return flash_attention(q, k, v, causal=True)[0].square().sum()


def of_outputs(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return flash_attention(q, k, v, causal=True)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [of_o, of_both])
def test_a_compiled_training_step_has_the_same_gradients(exact: list[bool], loss: Callable[..., Tensor]) -> None:
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    q, k, v = tensors(seq_q=7)
    for one, other in zip(*(torch.autograd.grad(each(q, k, v), (q, k, v)) for each in (loss, compiled)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_a_compiled_function_may_return_lse(exact: list[bool]) -> None:
    compiled = torch.compile(of_outputs, fullgraph=True, backend="aot_eager")
    q, k, v = tensors(seq_q=7)
    found, expected = (torch.autograd.grad(each(q, k, v)[0].sum(), (q, k, v)) for each in (compiled, of_outputs))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_only_rungs_whose_bits_repeat_are_deterministic() -> None:
    for causal in (False, True):
        problem = Problem.square(1, 4, 4096, 128, causal=causal)
        chosen = {steady: api.case_of(problem, steady, None).technique for steady in (False, True)}
        rungs = [rung for rung in hopper.TECHNIQUES if rung.name not in api.NOT_YET]
        assert chosen == {steady: [rung.name for rung in rungs if rung.repeats is steady][-1] for steady in chosen}
        assert "ordered_halves" not in chosen.values(), "no GPU has run its random problems"


def test_a_problem_that_no_kernel_takes_is_refused_with_a_reason() -> None:
    with pytest.raises(Unsupported, match=r"no kernel takes this problem .*head_dim 256: dK and dV"):
        api.case_of(Problem.square(1, 4, 4096, 256), False, None)


def of_sum(q: Tensor) -> Tensor:
    return torch.ones((), dtype=q.dtype).expand(q.shape)


@pytest.mark.parametrize(
    "change", [of_sum, lambda q: q.mT.contiguous().mT, lambda q: torch.zeros(q.numel() + 1).to(q.dtype)[1:].view_as(q)]
)
def test_a_gradient_of_any_strides_gets_those_that_kernels_take(change: Callable[[Tensor], Tensor]) -> None:
    q = torch.zeros(1, 2, 64, 64, dtype=torch.bfloat16)
    given = change(q)
    found = api._laid_out("do", given)
    assert found is not given
    assert found.is_contiguous()
    assert torch.equal(found, given)
    assert api._laid_out("do", q) is q


def test_memory_that_was_freed_after_the_forward_pass_is_refused() -> None:
    freed = torch.zeros(1, 2, 64, 64, dtype=torch.bfloat16)
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match=r"^k: got a storage of 0 bytes"):
        api._laid_out("k", freed)
    negated = torch._neg_view(torch.ones(1, 2, 64, 64, dtype=torch.bfloat16))
    assert not api._laid_out("do", negated).is_neg()
    assert torch.equal(api._laid_out("do", negated), negated)


@pytest.mark.parametrize(
    ("problem", "words"),
    [(Problem.square(65_536, 1, 16, 64), "at most 65535"), (Problem(1, 1, 1, 2**24, 16, 128), "int32 offsets")],
    ids=["batches", "queries"],
)
def test_a_problem_beyond_what_kernels_number_is_refused(problem: Problem, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        api.case_of(problem, False, None)


def test_tensors_changed_between_both_passes_are_refused(exact: list[bool]) -> None:
    for changed in range(4):
        leaves = tensors()
        inputs = [leaf * 1 for leaf in leaves]
        o, _ = flash_attention(*inputs)
        loss = o.sum()
        [*inputs, o.detach()][changed].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    assert not exact


def test_gradients_under_autocast_have_the_dtypes_of_what_they_are_of(exact: list[bool]) -> None:
    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    leaves = [torch.randn(1, 2, 5, 64).to(dtype).requires_grad_() for dtype in dtypes]
    with torch.autocast("cpu", torch.bfloat16):
        o, _ = flash_attention(*leaves)
        o.sum().backward()
    for leaf in leaves:
        assert (leaf.grad.dtype, leaf.grad.shape) == (leaf.dtype, leaf.shape)


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels themselves, on the CPU runtime; o and lse come from plain PyTorch, in fp32."""

    def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
        k, v = (tensor.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for tensor in (k, v))
        scores = q.float() @ k.mT * (0.125 if scale is None else scale)
        if causal:
            seen = torch.ones(scores.shape[2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
            scores = scores.masked_fill(~seen, -torch.inf)
        lse = scores.logsumexp(-1)
        p = (scores - lse.masked_fill(lse == -torch.inf, 0)[..., None]).exp()
        return (p @ v).to(q.dtype), lse

    def kernel(_gpu: int, case: Any) -> Any:
        path = techniques.at(case.technique, case.problem).path
        library = Library(cpu_build.build(patched.kernel_file(path, cpu_build.HERE), constants(case, packed=True)))

        def entry(args: bytes, _stream: int) -> int:
            library.configure()
            code: int = library.launch(args, None)
            assert not library.diagnosis()
            return code

        counters = workspace_bytes(library.handle, case.problem)
        return SimpleNamespace(
            entry=entry, scratch_bytes=arguments.scratch_bytes(case.problem), workspace_bytes=counters
        )

    monkeypatch.setattr(forward, "_attend", attend)
    monkeypatch.setattr(api, "_kernel", kernel)
    monkeypatch.setattr(api, "_launches", {})
    api._workspaces.cache_clear()
    monkeypatch.setattr(workspaces, "_zeros", lambda size: torch.zeros(size, dtype=torch.uint8))
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: None, raising=False)
    for name, value in {
        "device": lambda _: nullcontext(),
        "is_current_stream_capturing": lambda: False,
        "get_device_name": lambda _: "NVIDIA H100 80GB HBM3",
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)


def test_what_may_differ_between_launches_of_a_kind_is_checked_on_each(
    cpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[arguments.AttentionBackwardArgs] = []

    def entry(args: bytes, _stream: int) -> int:
        launched.append(arguments.AttentionBackwardArgs.from_buffer_copy(args))
        return 0

    def kernel(_gpu: int, case: Any) -> Any:
        asked.append(case)
        return SimpleNamespace(entry=entry, scratch_bytes=arguments.scratch_bytes(case.problem), workspace_bytes=4)

    def launch(**changed: Tensor) -> Any:
        return api.launch(*(given | changed).values(), lse, True, 0.125, False)

    asked: list[Any] = []
    monkeypatch.setattr(api, "_kernel", kernel)
    given = {name: torch.zeros(1, 2, 64, 64, dtype=torch.bfloat16) for name in ("do", "q", "k", "v", "o")}
    lse, moved = torch.zeros(1, 2, 64), torch.zeros(2 * 64 * 64 + 1, dtype=torch.bfloat16)
    for d_o in (given["do"], given["do"].clone()):
        dq, _, dv = launch(do=d_o)
        args = launched[-1]
        assert (args.do, args.q, args.dq, args.dv) == tuple(one.data_ptr() for one in (d_o, given["q"], dq, dv))
        rows = 4 * 2 * args.scratch_rows
        assert (args.dots - args.dq_sums, args.lse_log2 - args.dots) == (64 * rows, rows)
        assert (args.scale, args.seq_kv) == (0.125, 64)
    assert len(asked) == len({args.workspace for args in launched}) == 1, "what is zero stays so, and is allocated once"
    unaligned = moved[1:].view(1, 2, 64, 64)
    launch(do=unaligned)
    assert launched[-1].do not in (0, unaligned.data_ptr())
    freed = given["k"].clone()
    freed.untyped_storage().resize_(0)
    for wrong in (freed, torch._efficientzerotensor(freed.shape, dtype=torch.bfloat16)):
        with pytest.raises(ValueError, match=r"^k: got a "):
            launch(k=wrong)
    assert len(launched) == 3


def no_scores(q: Tensor, k: Tensor, _v: Tensor) -> None:
    """Scores of finite numbers that overflow to -inf: all of row 3, and half of row 70."""
    q[..., -2:] = 0
    k[..., -2], k[..., -1] = -8, 0
    k[:, :, ::2, -2] = -64
    k[:, :, 40:, -1] = -8
    q[:, :, 3, -2] = q[:, :, 70, -1] = 1e38


PASSES: dict[str, tuple[tuple[int, int, int, int], dict[str, Any], Any]] = {
    "more queries than keys": ((4, 2, 150, 70), {"causal": True}, None),
    "a negative scale": ((2, 2, 80, 96), {"scale": -0.3, "causal": True}, None),
    "scale 0": ((2, 1, 150, 70), {"scale": 0.0, "causal": True}, None),
    "scores of -inf": ((2, 1, 80, 96), {}, no_scores),
}


@pytest.mark.slow
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", PASSES)
def test_on_the_cpu_runtime_gradients_are_right(cpu: None, name: str, deterministic: bool) -> None:
    (heads, heads_kv, seq_q, seq_kv), options, change = PASSES[name]
    torch.manual_seed(0)
    sizes = ((heads, seq_q), (heads_kv, seq_kv), (heads_kv, seq_kv))
    q, k, v = (torch.randn(1, *size, 64).bfloat16() for size in sizes)
    if change:
        change(q, k, v)
    for leaf in (q, k, v):
        leaf.requires_grad_()
    o, lse = flash_attention(q, k, v, deterministic=deterministic, **options)
    (o * 0.5).sum().backward()  # a gradient of stride 0
    given = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "do": torch.full_like(o, 0.5)}
    given = {name: tensor.detach() for name, tensor in given.items()}
    options = {"scale": 0.125, "causal": False} | options
    expected = reference.truth(given, **options, precision=torch.float32)
    if change:
        assert (lse[:, :, 3] == -torch.inf).all()
        assert lse[:, :, 70].isfinite().all()
    for one, right in zip((q, k, v), expected.values(), strict=True):
        largest = right.abs().amax(2, keepdim=True)  # of each column
        assert ((one.grad.float() - right).abs() <= 0.02 * largest + 1e-6).all()


def gradients_of_lse(device: str) -> None:
    """Beside those of o, and next to plain PyTorch's in fp32."""
    torch.manual_seed(0)
    sizes = ((4, 80), (2, 96), (2, 96))
    given = [torch.randn(1, *size, 64, device=device).bfloat16().requires_grad_() for size in sizes]
    weights = torch.randn(1, 4, 80, device=device)

    def loss(o: Tensor, lse: Tensor) -> Tensor:
        return o.float().square().sum() + (weights * lse).sum()

    q, k, v = (tensor.detach().float().requires_grad_() for tensor in given)
    scores = q @ k.repeat_interleave(2, 1).mT * 0.125
    expected = torch.autograd.grad(
        loss(scores.softmax(-1) @ v.repeat_interleave(2, 1), scores.logsumexp(-1)), (q, k, v)
    )
    for found, right in zip(torch.autograd.grad(loss(*flash_attention(*given)), given), expected, strict=True):
        assert ((found.float() - right).abs() <= 0.02 * right.abs().amax(2, keepdim=True)).all()


@pytest.mark.slow
def test_on_the_cpu_runtime_lse_has_gradients(cpu: None) -> None:
    gradients_of_lse("cpu")


@pytest.mark.gpu(9)
def test_on_a_gpu_lse_has_gradients() -> None:
    gradients_of_lse("cuda")


@pytest.mark.gpu(9)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(
    "problem",
    [
        Problem(2, 4, 2, 200, 333, 64, "fp16", True, "bshd"),
        Problem(1, 8, 1, 512, 512, 128),
        Problem(1, 2, 2, 210, 136, 64),
    ],
    ids=lambda problem: problem.slug,
)
def test_gradients_on_a_gpu_pass_the_gate(problem: Problem, deterministic: bool) -> None:
    def launch(given: Any, scalars: Any) -> None:
        q, k, v = (given[name].detach().requires_grad_() for name in ("q", "k", "v"))
        o, _ = flash_attention(q, k, v, deterministic=deterministic, **scalars)
        for name, gradient in zip(("dq", "dk", "dv"), torch.autograd.grad(o, (q, k, v), given["do"]), strict=True):
            given[name].copy_(gradient)

    verdict = gate.gate(launch, problem, peer=True, distributions=("normal", "shifted", "negative_scores"))
    assert verdict.passed, verdict.reason
