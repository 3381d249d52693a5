"""`from harness import flash_attention`: bad input ends in a sentence, good input in the table's kernel, at once."""

import gc
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from harness import flash_attention
from harness.build import LaunchError
from harness.build.cuda import workspace_bytes
from harness.operators.attention import api as plain
from harness.operators.attention import reference, waves
from harness.operators.attention.problem import Problem
from harness.operators.errors import Unsupported
from tests.support import cpu_run, infinities
from tests.support.launches import gate


def tensors(
    *, device: str = "cpu", dtype: torch.dtype = torch.bfloat16, heads: int = 4, heads_kv: int = 2, head_dim: int = 64
) -> dict[str, Any]:
    shapes = {"q": (2, heads, 80, head_dim), "k": (2, heads_kv, 96, head_dim), "v": (2, heads_kv, 96, head_dim)}
    return {name: torch.zeros(shape, dtype=dtype, device=device) for name, shape in shapes.items()}


def strided(*strides: int) -> torch.Tensor:
    return torch.empty_strided((2, 2, 96, 64), strides, dtype=torch.bfloat16)


class Subclass(torch.Tensor):
    """A subclass is a tensor like any other."""


H100, H200 = (SimpleNamespace(multi_processor_count=132, memory_bus_width=bits) for bits in (5120, 6016))
PADDED = {80: 128, 96: 128, 112: 128, 192: 256}
BAD = {
    TypeError: [
        ({"q": [[1.0]]}, "q: got list, expected a torch.Tensor"),
        ({"v": None}, "v: got NoneType, expected a torch.Tensor"),
        (tensors(dtype=torch.float32), r"q.dtype: got torch.float32, expected torch.float16 or torch.bfl"),
        ({"k": tensors(dtype=torch.float16)["k"]}, r"k.dtype: got torch.float16, expected torch.bfloat16 as"),
        ({"scale": [0.1]}, "scale: got list, expected a float"),
        ({"causal": 1}, "causal: got int, expected True or False"),
    ],
    ValueError: [
        *(
            (
                tensors(head_dim=size),
                rf"q.shape: got head_dim = {size}, expected one of \(64, 128, 256\) for flagship; pad q, k and v "
                rf"with zeros to {wider} columns .*, pass scale = {size} \*\* -0.5, and take the first {size}",
            )
            for size, wider in PADDED.items()
        ),
        (tensors(head_dim=0), r"q.shape: got head_dim = 0, expected one of \(64, 128, 256\) for flagship$"),
        ({"k": tensors(device="meta")["k"]}, "k.device: got meta, expected cpu as q"),
        (tensors(heads=5), "k.shape: got 2 heads, expected a divisor of q's 5 heads"),
        (tensors(heads_kv=0), "k.shape: got 0 heads, expected a divisor of q's 4 heads"),
        ({"q": torch.zeros(2, 80, 64).bfloat16()}, r"q.dim\(\): got 3 with shape \(2, 80, 64\), expected"),
        ({"k": torch.zeros(2, 2, 64, 96).bfloat16().mT}, r"k.stride\(-1\): got 96, expected 1"),
        ({"v": torch.zeros(2, 2, 96, 68).bfloat16()[..., :64]}, r"v.stride\(\): got 68 for seq, expected a m"),
        ({"k": strided(6144, 6144, 0, 1)}, r"k.stride\(\): got 0 for seq \(exp.*; pass k.contiguous\(\)$"),
        ({"k": strided(6144, 0, 64, 1)}, r"k.stride\(\): got 0 for heads .*; pass fewer heads_kv, k\[:, :1"),
        ({"v": strided(0, 6144, 64, 1)}, r"v.stride\(\): got 0 for batch .*; pass v\[:1\] with q.trans"),
        (
            {"q": torch.zeros(2, 4, 1, 64).bfloat16().expand(2, 4, 2**26, 64)},
            r"q.stride\(\): got 0 for seq \(expanded\)",  # before an output of 2^36 bytes is allocated
        ),
        ({"scale": float("nan")}, "scale: got nan, expected finite;"),
        ({"scale": 1e-40}, "scale: got 1e-40, expected 1.18e-38 to"),
        ({"q": tensors()["q"].requires_grad_()}, r"q.device: got cpu, expected a CUDA GPU \(Hopper\)"),
        ({"v": torch._neg_view(tensors()["v"])}, "v: got a view that PyTorch has negated"),
        ({}, r"q.device: got cpu, expected a CUDA GPU \(Hopper\)"),
        ({"k": torch.nested.nested_tensor([torch.zeros(2, 96, 64)])}, "k: got a nested tensor, expected"),
        ({"v": torch.zeros(2, 2, 96, 64).to_sparse()}, "v.layout: got torch.sparse_coo, expected torch.strided"),
    ],
}


@pytest.mark.parametrize(
    ("error", "wrong", "words"), [(error, *one) for error, several in BAD.items() for one in several]
)
def test_bad_input_ends_in_a_sentence(error: type[Exception], wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(error, match=f"^{words}"):
        flash_attention(**(tensors() | wrong))


def test_problems_that_share_a_kernel_share_a_case() -> None:
    short, long, longer = (Problem.square(1, 16, seq, 128) for seq in (1024, 16_384, 32_768))
    assert plain.case_of(long, H100) == plain.case_of(longer, H100)
    assert plain.case_of(short, H100).tile != plain.case_of(long, H100).tile
    assert plain.case_of(replace(short, dtype="fp16"), H100) != plain.case_of(short, H100)


def test_fetches_are_short_where_memory_has_more_than_five_stacks() -> None:
    few, square = Problem(64, 32, 8, 1, 8192, 128, "bf16"), Problem.square(1, 16, 1024, 128)
    chosen = {gpu.memory_bus_width: plain.case_of(few, gpu) for gpu in (H100, H200)}
    assert {bits: case.technique for bits, case in chosen.items()} == {5120: "flagship_decode", 6016: "short_fetches"}
    assert len({case.tile for case in chosen.values()}) == 1
    assert plain.case_of(square, H100) == plain.case_of(square, H200)


class Kernel:
    """One that says what it was launched with."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.workspace_bytes = code, 4
        self.launches: list[tuple[int, int]] = []

    def workspace_of(self, _problem: Problem) -> int:
        return self.workspace_bytes

    def entry(self, args: bytes, stream: int) -> int:
        counter = plain.AttentionArgs.from_buffer_copy(args).workspace
        self.launches.append((stream, counter))
        return self.code


class Gpu:
    """A pretended H200, whose memory is the CPU's: its streams, and the cases that were loaded for it."""

    def __init__(self) -> None:
        self.stream, self.capturing, self.device = 77, False, 0
        self.loaded: list[Any] = []
        self.kernel: Any = Kernel()

    def load(self, case: Any) -> Any:
        self.loaded.append(case)
        return self.kernel


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    one = Gpu()
    for cached in (plain._kernel, plain._counters):
        cached.cache_clear()
    monkeypatch.setattr(plain, "_calls", {})
    monkeypatch.setattr(plain, "load", lambda case: one.load(case))
    monkeypatch.setattr(plain, "CudaVariant", object)
    monkeypatch.setattr(plain, "_empty", torch._C._dynamo.guards._empty_strided_cpu)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    zeros = torch.zeros
    monkeypatch.setattr(plain.torch, "zeros", lambda *size, **options: zeros(*size, **options | {"device": "cpu"}))
    for name, value in {
        "get_device_capability": lambda _: (9, 0),
        "get_device_properties": lambda _: H100,
        "device": lambda _: nullcontext(),
        "current_device": lambda: None,
        "current_stream": lambda: torch.cpu.Stream(),
        "is_current_stream_capturing": lambda: one.capturing,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.cpu.Stream, "synchronize", lambda _: None, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: one.stream, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: None, raising=False)
    return one


def test_a_kernel_is_loaded_once_and_launched_on_the_callers_stream(gpu: Gpu) -> None:
    given = tensors()
    given["q"] = given["q"].transpose(1, 2).contiguous().transpose(1, 2)
    for _ in range(3):
        o, lse = flash_attention(**given)
    assert (o.shape, o.dtype, o.stride()) == (given["q"].shape, torch.bfloat16, given["q"].stride())
    assert (lse.shape, lse.dtype) == ((2, 4, 80), torch.float32)
    assert len(gpu.loaded) == 1
    assert [stream for stream, _ in gpu.kernel.launches] == [77] * 3
    flash_attention(**tensors(heads=6, heads_kv=3))
    assert len(gpu.loaded) == 1
    flash_attention(**given, causal=True)
    flash_attention(**given, causal=numpy.True_)  # type: ignore[arg-type]
    flash_attention(**tensors(dtype=torch.float16))
    assert [(case.problem.dtype, case.problem.causal) for case in gpu.loaded[1:]] == [("bf16", True), ("fp16", False)]


def test_what_may_differ_between_calls_of_a_kind_is_checked_on_each(gpu: Gpu) -> None:
    good = tensors()
    flash_attention(**good)
    freed = torch.zeros_like(good["k"])
    freed.untyped_storage().resize_(0)
    shifted = torch.zeros(good["v"].numel() + 4, dtype=torch.bfloat16)[4:].view_as(good["v"])
    for wrong, words in (
        ({"k": freed}, "k: got a storage of 0 bytes"),
        ({"v": shifted}, r"v.data_ptr\(\): got 8 bytes past a multiple of 16"),
        ({"v": torch._neg_view(good["v"])}, "v: got a view that PyTorch has negated"),
        ({"k": torch._efficientzerotensor(good["k"].shape, dtype=torch.bfloat16)}, "k: got a tensor without memory"),
        ({"causal": 0}, "causal: got int"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^{words}"):
            flash_attention(**good | wrong)
    with pytest.raises(ValueError, match=r"^q: got a tensor without memory of its own"):
        torch.vmap(lambda q: flash_attention(q, good["k"], good["v"])[0])(good["q"][None])
    assert len(gpu.kernel.launches) == 1


def test_a_call_with_a_gradient_to_come_keeps_what_it_needs(gpu: Gpu) -> None:
    parameters = {name: torch.nn.Parameter(tensor) for name, tensor in tensors().items()}
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            o, lse = flash_attention(**parameters)
        assert {o.requires_grad, lse.requires_grad} == {False}
    flash_attention(**{name: tensor.as_subclass(Subclass) for name, tensor in tensors().items()})
    o, lse = flash_attention(**parameters)
    assert (o.requires_grad, lse.requires_grad, len(gpu.kernel.launches)) == (True, True, 4)
    with pytest.raises(Unsupported, match=r"^gradients of flash_attention: no kernel takes .*head_dim 256: dK and dV"):
        flash_attention(**tensors(head_dim=256) | {"q": torch.zeros(2, 4, 80, 256).bfloat16().requires_grad_()})
    assert len(gpu.kernel.launches) == 4


def check_nothing_to_see(good: dict[str, torch.Tensor]) -> None:
    for empty in (
        {"q": good["q"][:, :, :0]},
        {"k": good["k"][:, :, :0], "v": good["v"][:, :, :0]},
        {name: tensor[:0] for name, tensor in good.items()},
        {name: tensor[:, :0] for name, tensor in good.items()},
    ):
        given = good | empty
        for _ in range(2):
            o, lse = flash_attention(**given)
            assert (o.shape, o.dtype, lse.shape) == (given["q"].shape, torch.bfloat16, given["q"].shape[:3])
            assert (o == 0).all()
            assert (lse == -torch.inf).all()


def test_nothing_to_see_gives_zeros_and_no_launch(gpu: Gpu) -> None:
    check_nothing_to_see(tensors())
    assert gpu.loaded == []


def test_streams_and_captured_launches_share_no_counter(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A captured launch has its own for good: the graph may be replayed beside anything."""

    def counters(calls: int) -> set[int]:
        del gpu.kernel.launches[:]
        for _ in range(calls):
            flash_attention(**tensors())
        return {counter for _, counter in gpu.kernel.launches}

    (first,) = counters(3)
    gpu.stream = 78
    (second,) = counters(3)
    gpu.capturing = True
    captured = counters(3)
    gpu.capturing, gpu.stream = False, 77
    assert counters(3) == {first}
    assert len({first, second} | captured) == 5
    monkeypatch.setattr(plain.Workspaces, "SLAB", 32)
    gpu.capturing = True
    assert len(counters(2)) >= 1  # memory of the graph, which each replay zeroes
    gpu.capturing, gpu.stream = False, 79
    assert counters(2).isdisjoint({first, second} | captured)


def test_a_stream_has_one_workspace_as_large_as_any_launch_needs(gpu: Gpu) -> None:
    addresses = []
    for size in (4, 5000, 4100, 16, 8192, 10_000):
        gpu.kernel.workspace_bytes = size
        flash_attention(**tensors() | {"q": torch.zeros(2, 4, size, 64).bfloat16()})
        addresses.append(gpu.kernel.launches[-1][1])
    small, grown, larger = addresses[0], addresses[1], addresses[-1]
    assert addresses == [small, grown, grown, grown, grown, larger]
    assert len({small, grown, larger}) == 3


@pytest.mark.parametrize("size", [0, 4])
def test_the_first_call_of_a_process_may_be_captured(gpu: Gpu, size: int) -> None:
    """A kernel with one part of the keys needs no workspace at all."""
    gpu.kernel.workspace_bytes, gpu.capturing = size, True
    flash_attention(**tensors())
    gpu.capturing = False
    flash_attention(**tensors())
    assert len(gpu.kernel.launches) == 2


def test_workspaces_come_from_no_pool_of_the_callers_thread(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a pool is given to others while the process runs on; a captured launch stays in it, as its graph does."""
    threads, zeros = [], plain.torch.zeros

    def watched(*size: int, **options: Any) -> torch.Tensor:
        threads.append(threading.get_ident())
        return zeros(*size, **options)

    given = tensors()
    monkeypatch.setattr(plain.torch, "zeros", watched)
    gpu.capturing = True
    flash_attention(**given)
    gpu.capturing = False
    flash_attention(**given)
    captured, kept = threads
    assert captured == threading.get_ident() != kept


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_tangent_is_refused_by_name(name: str) -> None:
    given = tensors()

    def attend(one: torch.Tensor) -> torch.Tensor:
        return flash_attention(**given | {name: one})[0]

    one, words = given[name], rf"^{name}: got a tensor with a tangent, .*{name}.detach\(\)"
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(one, one)
        with pytest.raises(NotImplementedError, match=words):
            attend(dual)
        with pytest.raises(ValueError, match=r"^q.device: got cpu"):
            attend(dual.detach())
    with pytest.raises(NotImplementedError, match=words):
        torch.func.jvp(attend, (one,), (one,))


def test_threads_launch_with_their_own_arguments(gpu: Gpu) -> None:
    seen: list[tuple[int, int]] = []

    def entry(args: bytes, _stream: int) -> int:
        time.sleep(0)  # others run
        filled = plain.AttentionArgs.from_buffer_copy(args)
        seen.append((filled.q, filled.seq_q))
        return 0

    gpu.kernel.entry = entry
    given = [tensors() | {"q": torch.zeros(2, 4, 16 * number, 64).bfloat16()} for number in range(1, 5)]
    threads = [
        threading.Thread(target=lambda one=one: [flash_attention(**one) for _ in range(50)])  # type: ignore[misc]
        for one in given
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 200
    assert set(seen) == {(one["q"].data_ptr(), one["q"].shape[2]) for one in given}


def test_what_is_remembered_is_bounded(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MOST_CALLS", 3)
    for rows in range(1, 9):
        flash_attention(**tensors() | {"q": torch.zeros(2, 4, rows, 64).bfloat16()})
        assert len(plain._calls) <= 3


def test_autocast_casts_what_no_kernel_takes(gpu: Gpu) -> None:
    with torch.autocast("cpu", dtype=torch.float16):
        assert flash_attention(**tensors(dtype=torch.float32))[0].dtype == torch.float16
        assert flash_attention(**tensors() | {"k": tensors(dtype=torch.float32)["k"]})[0].dtype == torch.float16
        assert flash_attention(**tensors())[0].dtype == torch.bfloat16
    with pytest.raises(TypeError, match=r"^q.dtype: got torch.float32"):
        flash_attention(**tensors(dtype=torch.float32))


@pytest.mark.slow
def test_a_trace_sees_one_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    given, calls = tensors(), []

    def attend(q: Any, k: Any, v: Any) -> Any:
        o, lse = flash_attention(q * 1, k, v, causal=True, scale=0.5)
        return o + 1, lse

    def kernel(q: Any, _k: Any, _v: Any, causal: bool, scale: float | None) -> Any:
        calls.append((causal, scale))
        return torch.zeros_like(q), q.new_zeros(q.shape[:3], dtype=torch.float32)

    monkeypatch.setattr(plain, "_attend", kernel)
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        o, _ = compiled(**given)
        assert (o == 1).all()
    assert calls == [(True, 0.5)] * 2
    traced = make_fx(attend)(*given.values())
    assert torch.ops.twinkernels.flash_attention.default in {node.target for node in traced.graph.nodes}
    with FakeTensorMode():
        o, lse = flash_attention(**tensors())
    assert (o.shape, lse.shape, lse.dtype) == ((2, 4, 80, 64), (2, 4, 80), torch.float32)


HOST_US = 60
"""Generous: the machine may be shared by others. 20 is the aim on one that is not."""


def test_a_warm_call_takes_microseconds(gpu: Gpu, capsys: pytest.CaptureFixture[str]) -> None:
    """All of a call but CUDA's launch and the GPU's allocator, in whose place are a function that does nothing and the
    CPU's allocator."""
    gpu.kernel.entry = lambda _args, _stream: 0
    given = tensors()
    flash_attention(**given)
    gc.disable()
    try:
        times = []
        for _ in range(2000):
            start = time.perf_counter_ns()
            flash_attention(**given)
            times.append(time.perf_counter_ns() - start)
    finally:
        gc.enable()
    median = sorted(times)[len(times) // 2] / 1000
    with capsys.disabled():
        print(f" {median:.1f} us a call, without launch ", end="")
    assert median < HOST_US


def test_an_error_of_cuda_is_said(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.kernel = Kernel(719)
    monkeypatch.setattr(torch.cuda, "CudaError", lambda code: f"error {code}", raising=False)
    with pytest.raises(LaunchError, match=r"flash_attention of b2-h4k2-q80k96-d64-bf16-full: error 719"):
        flash_attention(**tensors())


def test_another_gpu_is_refused(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    with pytest.raises(ValueError, match=r"^GPU: got compute capability 8.0, too old for flagship \(hopper\)"):
        flash_attention(**tensors())
    assert gpu.loaded == []


@pytest.fixture
def cpu(gpu: Gpu) -> Gpu:
    """The kernel itself, on the CPU runtime."""

    def load(case: Any) -> Any:
        library = cpu_run.build(case.technique, case.problem)

        def entry(args: bytes, _stream: int) -> int:
            library.configure()
            code = library.launch(args, None)
            assert not library.diagnosis()
            return code

        gpu.kernel.entry = entry
        return gpu.kernel

    gpu.load = load  # type: ignore[method-assign]
    return gpu


def far_apart(tensor: torch.Tensor) -> torch.Tensor:
    """Rows 2^26 elements apart: the last one lies beyond 2^31."""
    return cpu_run.with_strides(tensor, (2**36, 2**35, 2**26, 1))


def causal_with_fewer_keys(given: dict[str, torch.Tensor]) -> dict[str, Any]:
    return given | {"k": given["k"][:, :, :50], "v": given["v"][:, :, :50], "causal": True}


CALLS: dict[str, Callable[[dict[str, torch.Tensor]], dict[str, Any]]] = {
    "plain": lambda given: given,
    "causal, by NumPy": lambda given: given | {"causal": numpy.True_},
    "causal, rows without a key": causal_with_fewer_keys,
    "a negative scale": lambda given: given | {"scale": -0.3},
    "a negative scale, causal": lambda given: causal_with_fewer_keys(given) | {"scale": -1},
    "scale 0": lambda given: causal_with_fewer_keys(given) | {"scale": 0},
    "a large negative scale": lambda given: given | {"scale": -60.0},
    "K and V expanded over heads": lambda given: (
        given | {name: given[name][:, :1].expand(-1, 2, -1, -1) for name in "kv"}
    ),
    "rows far apart": lambda given: {name: far_apart(tensor) for name, tensor in given.items()},
}


def check_call(given: dict[str, Any]) -> None:
    o, lse = flash_attention(**given)
    options = {"causal": bool(given.pop("causal", False)), "scale": given.pop("scale", 0.125)}
    expected_o, expected_lse = reference.truth(**given, **options)
    torch.testing.assert_close(o.double(), expected_o.double(), atol=4e-3, rtol=4e-3)
    torch.testing.assert_close(lse.double(), expected_lse.double(), atol=2e-3, rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_on_the_cpu_runtime_it_is_attention(cpu: Gpu, name: str) -> None:
    torch.manual_seed(0)
    check_call(CALLS[name]({name: torch.randn_like(one.half()) for name, one in tensors(dtype=torch.float16).items()}))


@pytest.mark.slow
def test_kernels_that_alternate_find_their_counters_zero(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """One workspace, which grows, for the keys of one tile in parts, of several tiles, and for the other kernel."""

    def load(case: Any) -> Any:
        library = cpu_run.build(case.technique, case.problem)

        def entry(args: bytes, _stream: int) -> int:
            used.add((case.technique, plain.AttentionArgs.from_buffer_copy(args).workspace))
            library.configure()
            return library.launch(args, None) or len(library.diagnosis())

        return SimpleNamespace(entry=entry, workspace_of=lambda problem: workspace_bytes(library.handle, problem))

    torch.manual_seed(0)
    monkeypatch.setattr(waves, "decodes", lambda problem, _: problem.seq_q < 80)
    gpu.load, used = load, set[tuple[str, int]]()  # type: ignore[method-assign]
    few, more, several, whole = (
        {
            name: torch.randn(batch, heads, seq, 64).half()
            for name, heads, seq in (("q", 4, seq_q), ("k", 1, seq_kv), ("v", 1, seq_kv))
        }
        for batch, seq_q, seq_kv in ((1, 1, 700), (1, 4, 700), (3, 1, 2000), (2, 80, 96))
    )
    for given in (whole, few, whole, more, several, few, whole, several, more):
        o, lse = flash_attention(**given)
        expected_o, expected_lse = reference.truth(**given, scale=0.125, causal=False)
        torch.testing.assert_close(o.double(), expected_o.double(), atol=4e-3, rtol=4e-3)
        torch.testing.assert_close(lse.double(), expected_lse.double(), atol=2e-3, rtol=2e-3)
    addresses = {technique: {address for name, address in used if name == technique} for technique, _ in used}
    assert len(addresses) == 2
    assert set.intersection(*addresses.values()), "they share one"
    assert len(set.union(*addresses.values())) > 1, "it has grown"


@pytest.mark.slow
@pytest.mark.parametrize("change", infinities.CHANGES)
def test_scores_without_a_number_give_what_softmax_gives(cpu: Gpu, change: str) -> None:
    problem = infinities.PROBLEMS[0]
    given = infinities.drawn(problem, change)
    assert not infinities.difference(*flash_attention(**given), given, problem)


@pytest.mark.gpu(9)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("decodes", [False, True])
def test_on_a_gpu_it_is_attention(decodes: bool, head_dim: int, causal: bool) -> None:
    seq_q, seq_kv = (3, 5000) if decodes else (1001, 1571)
    problem = Problem(2, 4, 2, seq_q, seq_kv, head_dim, "bf16", causal)
    assert waves.decodes(problem, 132) == decodes

    def launch(q: Any, k: Any, v: Any, o: Any, lse: Any, *, scale: float, causal: bool) -> None:
        found = flash_attention(q, k, v, causal=causal, scale=scale)
        o.copy_(found[0]), lse.copy_(found[1])

    verdict = gate(launch, problem, device="cuda")
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"


@pytest.mark.gpu(9)
@pytest.mark.parametrize("change", infinities.CHANGES)
def test_on_a_gpu_scores_without_a_number_give_what_softmax_gives(change: str) -> None:
    for problem in infinities.PROBLEMS:
        given = infinities.drawn(problem, change, "cuda")
        o, lse = flash_attention(**given, causal=problem.causal)
        assert not infinities.difference(o, lse, given, problem), problem.slug


def on_a_gpu(device: str = "cuda", seq_q: int = 300, seq_kv: int = 300) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        name: torch.randn(2, heads, seq, 64, dtype=torch.bfloat16, device=device)
        for name, heads, seq in (("q", 4, seq_q), ("k", 2, seq_kv), ("v", 2, seq_kv))
    }


def far_apart_on_a_gpu(tensor: torch.Tensor) -> torch.Tensor:
    """(batch, seq, heads, head_dim) with rows 2^23 elements apart: one head reaches beyond 2^31."""
    batch, heads, seq, head_dim = tensor.shape
    rows = torch.empty((seq - 1) * 2**23 + batch * heads * head_dim, dtype=tensor.dtype, device=tensor.device)
    return rows.as_strided(tensor.shape, (heads * head_dim, head_dim, 2**23, 1)).copy_(tensor)


CALLS_ON_A_GPU: dict[str, Callable[[dict[str, torch.Tensor]], dict[str, Any]]] = CALLS | {
    "rows far apart": lambda given: given | {name: far_apart_on_a_gpu(given[name]) for name in "kv"},
    "65,600 batches": lambda given: {name: tensor[:, :1, :8].repeat(32_800, 1, 1, 1) for name, tensor in given.items()},
}


@pytest.mark.gpu(9)
@pytest.mark.parametrize("name", CALLS_ON_A_GPU)
def test_on_a_gpu_a_call_is_attention(name: str) -> None:
    check_call(CALLS_ON_A_GPU[name]({name: tensor.half() for name, tensor in on_a_gpu().items()}))


@pytest.mark.gpu(9)
def test_on_a_gpu_nothing_to_see_gives_zeros() -> None:
    check_nothing_to_see(on_a_gpu())


CONTEXTS: dict[str, Callable[[], Any]] = {
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cuda", torch.bfloat16),
    "another stream": lambda: torch.cuda.stream(torch.cuda.Stream()),
}


@pytest.mark.gpu(9)
@pytest.mark.parametrize("name", CONTEXTS)
def test_on_a_gpu_it_is_the_same_in_every_context(name: str) -> None:
    given = on_a_gpu()
    expected = flash_attention(**given)
    if name == "autocast":
        given = {name: tensor.float() for name, tensor in given.items()}
    torch.cuda.synchronize()
    with CONTEXTS[name]():
        found = flash_attention(**given)
    torch.cuda.synchronize()
    torch.testing.assert_close(found, expected, atol=0, rtol=0)


@pytest.mark.gpu(9)
def test_on_a_gpu_threads_have_streams_of_their_own() -> None:
    several = [on_a_gpu(seq_q=seq_q, seq_kv=6000) for seq_q in (2, 3, 200, 300)]  # of both flagships
    expected = [flash_attention(**given) for given in several]
    torch.cuda.synchronize()

    def calls(given: dict[str, torch.Tensor]) -> list[Any]:
        with torch.cuda.stream(torch.cuda.Stream()):
            found = [flash_attention(**given) for _ in range(50)]
            torch.cuda.current_stream().synchronize()
        return found

    with ThreadPoolExecutor(len(several)) as pool:
        for found, right in zip(pool.map(calls, several), expected, strict=True):
            for one in found:
                torch.testing.assert_close(one, right, atol=0, rtol=0)


@pytest.mark.gpu(9)
@pytest.mark.usefixtures("inductor")
@pytest.mark.parametrize(("seq_q", "seq_kv"), [(300, 300), (2, 6000)])
def test_on_a_gpu_it_compiles_and_replays_beside_eager_calls(seq_q: int, seq_kv: int) -> None:
    given = on_a_gpu(seq_q=seq_q, seq_kv=seq_kv)
    expected = flash_attention(**given)
    compiled = torch.compile(lambda q, k, v: flash_attention(q, k, v), fullgraph=True)
    torch.testing.assert_close(compiled(**given), expected, atol=0, rtol=0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = flash_attention(**given)
    other = torch.cuda.Stream()
    for _ in range(50):
        with torch.cuda.stream(other):
            graph.replay()
        beside = flash_attention(**given)
        torch.cuda.synchronize()
        torch.testing.assert_close(replayed, expected, atol=0, rtol=0)
        torch.testing.assert_close(beside, expected, atol=0, rtol=0)


@pytest.mark.gpu(9)
def test_on_a_gpu_workspaces_lie_in_no_pool_of_the_caller() -> None:
    given = on_a_gpu(seq_q=2, seq_kv=6000)
    plain._counters.cache_clear()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        flash_attention(**given)
    (slab,) = plain._counters(torch.cuda.current_device()).slabs
    segments = [(one["address"], one["address"] + one["total_size"]) for one in pool.snapshot()]
    assert segments, "o and lse lie there"
    assert not any(begin <= slab.data_ptr() < end for begin, end in segments)


@pytest.mark.gpu(9)
@pytest.mark.usefixtures("inductor")
def test_on_a_gpu_it_replays_in_trees_of_graphs() -> None:
    """Graphs that share a pool, which is given back to what was recorded whenever another one warms up."""
    given = on_a_gpu(seq_q=2, seq_kv=6000)
    plain._counters.cache_clear()
    step = torch.compile(lambda q, k, v: flash_attention(q, k, v)[0] * 1, mode="reduce-overhead", fullgraph=True)
    for keys in (200, 6000, 5000, 4000):
        cut = given | {name: given[name][:, :, :keys].contiguous() for name in "kv"}
        expected = flash_attention(**cut)[0]
        for _ in range(5):
            found = step(**cut).clone()
            torch.testing.assert_close(found, expected, atol=0, rtol=0)
            torch.testing.assert_close(flash_attention(**cut)[0], expected, atol=0, rtol=0)


@pytest.mark.gpu(9)
def test_on_several_gpus_each_call_runs_where_its_tensors_are() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    expected = [one.cpu() for one in flash_attention(**on_a_gpu("cuda:0"))]
    elsewhere = {name: tensor.to("cuda:1") for name, tensor in on_a_gpu("cuda:0").items()}
    found = flash_attention(**elsewhere)  # while cuda:0 is the current device
    assert found[0].device.index == 1
    torch.testing.assert_close([one.cpu() for one in found], expected, atol=0, rtol=0)
