"""Bad input: every case is refused with the argument's name, what was got and what is expected."""

import math
import re

import numpy
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from harness.catalog import sources, techniques
from harness.operators.attention.problem import Problem
from harness.operators.attention.validate import validate


def arguments(device="meta", batch=2, heads=4, heads_kv=2, seq_q=128, seq_kv=192, head_dim=64, dtype=torch.bfloat16):
    q = torch.empty(batch, heads, seq_q, head_dim, dtype=dtype, device=device)
    k = torch.empty(batch, heads_kv, seq_kv, head_dim, dtype=dtype, device=device)
    lse = torch.empty(batch, heads, seq_q, dtype=torch.float32, device=device)
    return {
        "q": q,
        "k": k,
        "v": torch.empty_like(k),
        "o": torch.empty_like(q),
        "lse": lse,
        "scale": 0.125,
        "causal": True,
    }


def meta(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="meta")


def strided(shape, strides):
    """A meta tensor of any strides: no memory, so no bounds."""
    return torch.empty_strided(shape, strides, dtype=torch.bfloat16, device="meta")


def bshd(tensor):
    return torch.empty_like(tensor.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": torch.float16, "head_dim": 128},
        {"head_dim": 256},
        {"seq_q": 1, "seq_kv": 1, "batch": 1},
        {"seq_q": 200, "seq_kv": 100},
        {"heads": 6, "heads_kv": 1},
    ],
)
def test_what_the_contract_allows_is_taken(options, device):
    good = arguments(device, **options)
    validate(**good)
    validate(**{name: bshd(x) if getattr(x, "dim", int)() == 4 else x for name, x in good.items()})


def test_strides_of_size_1_dimensions_do_not_count():
    good = arguments(batch=1, heads=1, heads_kv=1)
    validate(**{**good, "q": strided((1, 1, 128, 64), (0, 3, 64, 1)), "scale": 1})


def test_views_into_one_packed_tensor_are_taken():
    good = arguments("cpu", heads=2, heads_kv=2, seq_kv=128)
    q, k, v = torch.empty(3, 2, 2, 128, 64, dtype=torch.bfloat16)
    validate(**{**good, "q": q, "k": k, "v": v})


QUERY, KEY = (2, 4, 128, 64), (2, 2, 192, 64)
BAD = {
    TypeError: [
        ({"q": [1.0]}, "q: got list, expected a torch.Tensor"),
        ({"lse": None}, "lse: got NoneType, expected a torch.Tensor"),
        ({"scale": None}, "scale: got NoneType, expected a float"),
        ({"scale": True}, "scale: got bool, expected a float"),
        ({"scale": torch.tensor(0.125)}, "scale: got Tensor, expected a float"),
        ({"scale": 1j}, "scale: got complex, expected a float"),
        (
            {"q": meta(*QUERY, dtype=torch.float32).to(torch.float8_e4m3fn)},
            "q.dtype: got torch.float8_e4m3fn, expected torch.float16 or torch.bfloat16",
        ),
        ({"lse": meta(2, 4, 128, dtype=torch.float64)}, "lse.dtype: got torch.float64, expected torch.float32"),
        ({"causal": 1}, "causal: got int, expected True or False"),
        (
            {"q": meta(*QUERY, dtype=torch.float32)},
            "q.dtype: got torch.float32, expected torch.float16 or torch.bfloat16",
        ),
        ({"k": meta(*KEY, dtype=torch.float16)}, "k.dtype: got torch.float16, expected torch.bfloat16 as q"),
        ({"o": meta(*QUERY, dtype=torch.float32)}, "o.dtype: got torch.float32, expected"),
        ({"lse": meta(2, 4, 128)}, "lse.dtype: got torch.bfloat16, expected torch.float32;"),
    ],
    ValueError: [
        ({"scale": math.nan}, "scale: got nan, expected finite and positive"),
        ({"scale": math.inf}, "scale: got inf, expected finite and positive"),
        ({"scale": 0.0}, "scale: got 0.0, expected finite and positive"),
        ({"scale": -1}, "scale: got -1, expected finite and positive"),
        ({"scale": 1e39}, "scale: got 1e+39, expected 1.18e-38 to 3.4e+38"),
        ({"scale": 1e-46}, "scale: got 1e-46, expected 1.18e-38 to 3.4e+38"),
        ({"scale": 10**400}, "scale: got an int of 1329 bits, expected at most 3.4e+38"),
        ({"scale": 1e-40}, "scale: got 1e-40, expected 1.18e-38 to 3.4e+38"),
        ({"q": meta(1, *QUERY)}, "q.dim(): got 5 with shape (1, 2, 4, 128, 64), expected 4"),
        ({"v": meta(2, 2, 192, 0)}, "v.shape: got head_dim = 0, expected 1 to"),
        ({"v": torch.empty(*KEY, dtype=torch.bfloat16)}, "v.device: got cpu, expected meta as q"),
        ({"lse": torch.empty(2, 4, 128)}, "lse.device: got cpu, expected meta as q"),
        ({"q": meta(4, 128, 64)}, "q.dim(): got 3 with shape (4, 128, 64), expected 4"),
        ({"q": meta(0, 4, 128, 64)}, "q.shape: got batch = 0, expected 1 to"),
        ({"k": meta(2, 2, 0, 64)}, "k.shape: got seq = 0, expected 1 to"),
        ({"q": meta(2, 4, 2**31, 64)}, "q.shape: got seq = 2147483648, expected 1 to 2147483647"),
        (
            {"q": meta(2, 4, 2**20, 64), "k": meta(2, 2, 1, 64), "v": meta(2, 2, 1, 64)},
            "q.shape: got seq = 1048576 beside 1 keys, expected at most 1048512 (the order of tiles counts in int32);",
        ),
        ({"q": meta(2**16, 2**15, 1, 64)}, "q.shape: got batch * heads = 2147483648, expected below 2147483648"),
        ({"k": meta(2, 3, 192, 64)}, "k.shape: got 3 heads, expected a divisor of q's 4 heads"),
        ({"k": meta(1, 2, 192, 64)}, "k.shape: got (1, 2, 192, 64), expected (2, 2, 192, 64)"),
        ({"k": meta(2, 2, 192, 128)}, "k.shape: got (2, 2, 192, 128), expected (2, 2, 192, 64)"),
        ({"v": meta(2, 2, 191, 64)}, "v.shape: got (2, 2, 191, 64), expected (2, 2, 192, 64): the shape of k"),
        ({"o": meta(*KEY)}, "o.shape: got (2, 2, 192, 64), expected (2, 4, 128, 64): the shape of q"),
        ({"lse": meta(2, 4, 128, 1, dtype=torch.float32)}, "lse.shape: got (2, 4, 128, 1), expected (2, 4, 128)"),
        (
            {"lse": meta(2, 128, 4, dtype=torch.float32).transpose(1, 2)},
            "lse.stride(): got (512, 1, 4), expected contiguous",
        ),
        (
            {"q": torch.empty(*QUERY, dtype=torch.bfloat16, device="meta", requires_grad=True)},
            "q.requires_grad: got True, expected False",
        ),
        ({"k": strided(KEY, (49152, 12288, 1, 192))}, "k.stride(-1): got 192, expected 1"),
        ({"q": strided(QUERY, (65536, 16384, 128, 2))}, "q.stride(-1): got 2, expected 1"),
        (
            {"v": strided(KEY, (26112, 13056, 68, 1))},
            "v.stride(): got 68 for seq, expected a multiple of 8 elements (16 bytes)",
        ),
        (
            {"o": strided(QUERY, (32772, 8192, 64, 1))},
            "o.stride(): got 32772 for batch, expected a multiple of 8 elements",
        ),
        (
            {"k": strided(KEY, (12288, 0, 64, 1))},
            "k.stride(): got 0 for heads (expanded), expected at least head_dim = 64",
        ),
        (
            {"o": strided(QUERY, (32768, 8192, 32, 1))},
            "o.stride(): got 32 for seq (overlapping rows), expected at least head_dim = 64",
        ),
        (
            {"o": strided(QUERY, (8192, 8192, 64, 1))},
            "o.stride(): got 8192 for heads (o overlaps itself), expected at least 16384",
        ),
        (
            {"o": strided(QUERY, (2 * 4 * 8192, 4096, 64, 1))},
            "o.stride(): got 4096 for heads (o overlaps itself), expected at least 8192",
        ),
        (
            {"q": meta(2 * 4 * 128 * 64 + 4)[4:].view(QUERY)},
            "q.data_ptr(): got 8 bytes past a multiple of 16, expected aligned to 16 bytes",
        ),
        (
            {"k": strided(KEY, (2**40, 2**36, 2**24, 1))},
            "k.stride(): got a last offset of 3204448319 elements inside one head, expected below 2147483648",
        ),
    ],
}


@pytest.mark.parametrize(
    ("error", "change", "message"), [(error, *one) for error, several in BAD.items() for one in several]
)
def test_bad_input_is_refused(error, change, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        validate(**{**arguments(), **change})


def test_strides_of_one_element_do_not_count():
    one_row = arguments(seq_q=1)
    validate(**{**one_row, "o": strided((2, 4, 1, 64), (256, 64, 0, 1))})
    validate(**{**one_row, "o": strided((2, 4, 1, 64), (64, 128, 1, 1))})  # heads outside of the batch


def test_offsets_of_batches_and_heads_may_exceed_int32():
    validate(**{**arguments(), "k": strided(KEY, (2**40, 2**36, 64, 1))})


@pytest.mark.parametrize("head_dim", [32, 80, 96, 192, 512])
def test_an_unsupported_head_dim_is_refused(head_dim):
    with pytest.raises(ValueError, match=rf"q.shape: got head_dim = {head_dim}, expected one of \(64, 128, 256\)"):
        validate(**arguments(head_dim=head_dim))


def test_outputs_need_memory_of_their_own():
    good = arguments("cpu", heads_kv=4, seq_kv=128)
    for name in ("q", "k", "v"):
        with pytest.raises(ValueError, match=f"o: got memory that overlaps {name}, expected memory of its own"):
            validate(**{**good, "o": good[name]})
    both = torch.empty(2 * 2 * 4 * 128 * 64 - 64, dtype=torch.bfloat16)
    q, o = both[: good["q"].numel()].view(QUERY), both[-good["q"].numel() :].view(QUERY)  # they share one row
    with pytest.raises(ValueError, match="o: got memory that overlaps q"):
        validate(**{**good, "q": q, "o": o})
    lse = good["v"].flatten()[:2048].view(torch.float32).view(2, 4, 128)
    with pytest.raises(ValueError, match="lse: got memory that overlaps v"):
        validate(**{**good, "lse": lse})
    lse = good["o"].flatten()[:2048].view(torch.float32).view(2, 4, 128)
    with pytest.raises(ValueError, match="o: got memory that overlaps lse"):
        validate(**{**good, "lse": lse})


def test_a_misaligned_address_is_refused_on_the_cpu_too():
    good = arguments("cpu")
    memory = torch.empty(good["o"].numel() + 8, dtype=torch.bfloat16)
    start = (-memory.data_ptr() % 16) // 2 + 1
    with pytest.raises(ValueError, match=r"o\.data_ptr\(\): got 2 bytes past a multiple of 16"):
        validate(**{**good, "o": memory[start : start + good["o"].numel()].view(QUERY)})


@pytest.mark.parametrize("name", ["q", "k", "v", "o", "lse"])
def test_memory_that_is_not_what_it_seems_is_refused(name):
    def freed(tensor):
        tensor.untyped_storage().resize_(0)
        return tensor

    def cut(tensor):
        tensor.untyped_storage().resize_(tensor.untyped_storage().nbytes() - 2)
        return tensor

    for change, message in (
        (torch._neg_view, r"got a view that PyTorch has negated .*; pass \w+\.resolve_neg"),
        (torch.Tensor.to_sparse, r"\.layout: got torch\.sparse_coo, expected torch\.strided"),
        (freed, r"got a storage of 0 bytes, expected the \d+ that its shape and strides reach"),
        (cut, r"got a storage of \d+ bytes, expected the \d+"),
    ):
        good = arguments("cpu")
        validate(**good)
        with pytest.raises(ValueError, match=f"^{name}.*{message}"):
            validate(**{**good, name: change(good[name])})
    complex_half = torch.zeros((*good[name].shape, 1), dtype=torch.complex64).conj()
    with pytest.raises(ValueError, match=f"^{name}: got a view that PyTorch has conjugated"):
        validate(**{**good, name: complex_half})


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("name", ["q", "k", "v", "o", "lse"])
def test_a_tensor_without_memory_is_refused(name):
    """A kernel would be given address 0."""
    good = arguments("cpu")
    shape, dtype = good[name].shape, good[name].dtype
    with FakeTensorMode():
        fake = torch.empty(shape, dtype=dtype)
    for one in (fake, torch._efficientzerotensor(shape, dtype=dtype)):
        with pytest.raises(ValueError, match=f"^{name}: got a tensor without memory of its own .*, expected one that"):
            validate(**{**good, name: one})
    refused = []

    def inside(tensor):
        with pytest.raises(ValueError, match=f"^{name}: got a tensor without memory of its own"):
            validate(**{**good, name: tensor})
        refused.append(name)
        return tensor.float().sum()

    torch.vmap(inside)(good[name][None])
    torch.func.grad(inside)(good[name])
    assert len(refused) == 2


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_refused():
    nested = torch.nested.nested_tensor([torch.zeros(4, 128, 64, dtype=torch.bfloat16)] * 2)
    jagged = torch.nested.nested_tensor([torch.zeros(4, 64, dtype=torch.bfloat16)] * 2, layout=torch.jagged)
    for one in (nested, jagged):
        with pytest.raises(ValueError, match=r"^q: got a nested tensor, expected one size of each dimension"):
            validate(**{**arguments("cpu"), "q": one})


def test_neighbours_of_bad_tensors_are_taken():
    """K that is V as well, a parameter that needs no gradient, a subclass, a tensor of inference mode, NumPy's True,
    and a parameter where no gradient is recorded."""
    good = arguments("cpu")

    class Own(torch.Tensor):
        pass

    with torch.inference_mode():
        inferred = torch.empty_like(good["q"])
    for name, one in {
        "v": good["k"],
        "k": torch.nn.Parameter(good["k"], requires_grad=False),
        "o": good["o"].as_subclass(Own),
        "q": inferred,
    }.items():
        validate(**{**good, name: one})
    validate(**{**good, "causal": numpy.True_})
    trained = {**good, "q": torch.nn.Parameter(good["q"])}
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            validate(**trained)
    with pytest.raises(ValueError, match=r"^q\.requires_grad: got True, expected False or torch\.no_grad"):
        validate(**trained)


@pytest.mark.parametrize("rung", [one for one in techniques.TECHNIQUES if one.operator == "attention"], ids=str)
def test_a_rung_declines_a_grid_of_too_many_batches_by_name(rung):
    """Where the batch is a dimension of the grid of its CUDA kernel; rungs with a grid of one dimension take any."""
    source = sources.kernel_file("cuda", rung.path).read_text()
    if same := re.search(r"#include <(attention/\w+/\w+\.cu)>", source):
        source = (sources.ROOT / "cuda_kernels" / same[1]).read_text()
    tile = techniques.reference_tile(rung, 64)
    problem = Problem.square(65_600, 1, tile.block_m * tile.block_n, 64)
    reason = techniques.unsupported(rung, "cuda", problem, tile) or ""
    assert ("at most 65535 each" in reason) == bool(re.search(r"Grid grid\{.*args->batch", source))


def interleaved(gap: int) -> dict[str, torch.Tensor]:
    """q and o in one buffer of (batch, seq, heads, 2, head_dim); o begins `gap` elements behind q."""
    batch, heads, seq, head_dim = 2, 3, 5, 64
    buffer = torch.zeros(batch * seq * heads * 2 * head_dim + 256, dtype=torch.float16)
    strides = (seq * heads * 2 * head_dim, 2 * head_dim, heads * 2 * head_dim, 1)
    q, o = (buffer.as_strided((batch, heads, seq, head_dim), strides, first) for first in (0, gap))
    k, v = (torch.zeros(batch, heads, 7, head_dim, dtype=torch.float16) for _ in "kv")
    return {"q": q, "k": k, "v": v, "o": o, "lse": torch.zeros(batch, heads, seq)}


@pytest.mark.parametrize(("gap", "shared"), [(64, False), (0, True), (56, True), (72, True), (128, True), (192, False)])
def test_outputs_between_the_rows_of_inputs_share_nothing(gap: int, shared: bool) -> None:
    tensors = interleaved(gap)
    assert bool(addresses(tensors["q"]) & addresses(tensors["o"])) == shared
    if shared:
        with pytest.raises(ValueError, match="o: got memory that overlaps q"):
            validate(**tensors, scale=0.125, causal=False)
    else:
        validate(**tensors, scale=0.125, causal=False)


def addresses(tensor: torch.Tensor) -> set[int]:
    """Of all elements."""
    places = [torch.arange(size) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    grid = sum(torch.meshgrid(*places, indexing="ij"))
    return set((grid.flatten() * tensor.element_size() + tensor.data_ptr()).tolist())
