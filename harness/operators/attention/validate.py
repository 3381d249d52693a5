"""Bad input ends here: the checks in front of both languages, before anything is built, allocated or launched.

Reads shapes, strides, dtypes and addresses only, never values, so meta tensors do.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.autograd import forward_ad

from harness.operators import memory
from harness.operators.attention.problem import Problem
from harness.operators.memory import ALIGNMENT, check_address, check_memory, check_no_gradient, extent, wrong
from harness.operators.protocol import Scalars, Tensors

DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}
HEAD_DIMS = (64, 128, 256)
FP32 = torch.finfo(torch.float32)
INT32_LIMIT = 2**31
"""Kernels take sizes, and offsets inside one head, as int32; batch and head offsets are int64."""
SECTION_BYTES, SMALLEST_BLOCK_M = 32 * 2**20, 64
"""Kernels take tiles in sections of as many heads as have K and V of so many bytes (persistent_tiles.cuh),
and multiply that number of heads by the number of tiles."""

_NUMPYS = ("numpy", "True"), ("numpy", "False")
_DIMENSIONS = ("batch", "heads", "seq", "head_dim")


def validate_launch(problem: Problem, tensors: Tensors, scalars: Scalars) -> None:
    """`validate`, and that tensors and numbers are the problem's: what is launched is compiled for that alone."""
    validate(**tensors, **scalars)
    q, k = tensors["q"], tensors["k"]
    if q.dtype != memory.DTYPES[problem.dtype]:
        dtypes = [str(dtype).removeprefix("torch.") for dtype in (q.dtype, memory.DTYPES[problem.dtype])]
        raise TypeError(f"q.dtype: got {dtypes[0]}, expected {dtypes[1]} as compiled for; load that problem")
    p = problem
    got = (*q.shape, k.shape[1], k.shape[2], scalars["causal"])
    expected = (p.batch, p.heads, p.seq_q, p.head_dim, p.heads_kv, p.seq_kv, p.causal)
    if got != expected:
        raise ValueError(f"problem: got tensors of {got}, expected {expected} as compiled for; load that problem")


def validate(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> None:
    """Returns when the twin contract takes these arguments; the first one that it does not take raises.

    q, o: (batch, heads, seq_q, head_dim); k, v: (batch, heads_kv, seq_kv, head_dim), fp16 or bf16, last dimension
    contiguous; lse: (batch, heads, seq_q) fp32, contiguous. Raises TypeError for what is not a tensor, number or dtype
    of the right kind, ValueError for everything else; the message names the argument, what was got and what is
    expected.
    """
    tensors = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    check_tensors(tensors)
    check_options(scale, causal)
    for name in "qkvo":
        check_layout(name, tensors[name])
    if not lse.is_contiguous():
        raise ValueError(f"lse.stride(): got {lse.stride()}, expected contiguous; pass lse.contiguous()")
    check_overlap_within("o", o)
    check_aliasing(tensors, ("o", "lse"))


def check_tensors(tensors: dict[str, Tensor], *, smallest: int = 1, whose: str = "") -> None:
    """Checks memory, dtypes, devices and shapes of q, k and v, and of o and lse if they are among `tensors`.
    `smallest`: the smallest size of a dimension, 1 for what is launched. `whose`: the kernel that asks, in a message
    such as "for flagship"."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: got {type(tensor).__name__}, expected a torch.Tensor")
    for name, tensor in tensors.items():
        check_memory(name, tensor)
    q = tensors["q"]
    if q.dtype not in DTYPES:
        raise wrong("q.dtype", q.dtype, "torch.float16 or torch.bfloat16", "convert with q.to(...)", TypeError)
    for name, tensor in tensors.items():
        expected, of_q = (torch.float32, "") if name == "lse" else (q.dtype, " as q")
        if tensor.dtype != expected:
            raise TypeError(f"{name}.dtype: got {tensor.dtype}, expected {expected}{of_q}; convert it first")
        if tensor.device != q.device:
            raise ValueError(f"{name}.device: got {tensor.device}, expected {q.device} as q; use .to(q.device)")
    _check_shapes(tensors, smallest)
    _check_head_dim(q.shape[-1], whose)
    check_no_gradient(tensors)


def check_no_tangent(tensors: dict[str, object]) -> None:
    """Refuses a call whose derivative in forward mode would be lost."""
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
            expected = "none (no forward-mode differentiation)"
            raise wrong(name, "a tensor with a tangent", expected, f"pass {name}.detach()", NotImplementedError)


def check_options(scale: float, causal: bool, *, any_sign: bool = False) -> None:
    """A scale that fp32 holds, positive unless `any_sign`, and a mask that is True or False (also NumPy's)."""
    usual = "the usual one is head_dim ** -0.5"
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise wrong("scale", type(scale).__name__, "a float", usual, TypeError)
    if isinstance(scale, int) and abs(scale) > FP32.max:
        raise wrong("scale", f"an int of {scale.bit_length()} bits", f"at most {FP32.max:.3g} (fp32)")
    size = abs(scale) if any_sign else scale
    if not (math.isfinite(scale) and (size > 0 or any_sign)):
        raise wrong("scale", scale, "finite" if any_sign else "finite and positive", usual)
    if scale and not FP32.tiny <= size <= FP32.max:
        raise wrong("scale", scale, f"{FP32.tiny:.3g} to {FP32.max:.3g} (kernels take it in fp32)", usual)
    if not isinstance(causal, bool) and (type(causal).__module__, str(causal)) not in _NUMPYS:
        raise TypeError(f"causal: got {type(causal).__name__}, expected True or False")


def _check_shapes(tensors: dict[str, Tensor], smallest: int) -> None:
    q, k = tensors["q"], tensors["k"]
    for name, tensor in tensors.items():
        if name == "lse":
            continue
        if tensor.dim() != 4:
            got = f"{tensor.dim()} with shape {tuple(tensor.shape)}"
            raise wrong(f"{name}.dim()", got, "4: (batch, heads, seq, head_dim)")
        for dimension, size in zip(_DIMENSIONS, tensor.shape, strict=True):
            if not smallest <= size < INT32_LIMIT:
                expected = f"{smallest} to {INT32_LIMIT - 1} (int32)"
                raise wrong(f"{name}.shape", f"{dimension} = {size}", expected)
    batch, heads, seq_q, head_dim = q.shape
    if batch * heads >= INT32_LIMIT:
        raise wrong("q.shape", f"batch * heads = {batch * heads}", f"below {INT32_LIMIT} (grid dimension)")
    heads_kv, seq_kv = k.shape[1:3]
    section_heads = max(1, SECTION_BYTES // max(1, head_dim * 4 * seq_kv))
    if seq_q > (longest := (INT32_LIMIT - 1) // section_heads * SMALLEST_BLOCK_M):
        expected = f"at most {longest} (the order of tiles counts in int32)"
        raise wrong("q.shape", f"seq = {seq_q} beside {seq_kv} keys", expected, "split the queries")
    if heads % heads_kv if heads_kv else heads:
        raise wrong("k.shape", f"{heads_kv} heads", f"a divisor of q's {heads} heads")
    for name, expected, meaning in (
        ("k", (batch, heads_kv, seq_kv, head_dim), "batch and head_dim as q"),
        ("v", (batch, heads_kv, seq_kv, head_dim), "the shape of k"),
        ("o", (batch, heads, seq_q, head_dim), "the shape of q"),
        ("lse", (batch, heads, seq_q), "(batch, heads, seq_q) of q"),
    ):
        if name in tensors and tuple(tensors[name].shape) != expected:
            raise wrong(f"{name}.shape", tuple(tensors[name].shape), f"{expected}: {meaning}")


def _check_head_dim(head_dim: int, whose: str) -> None:
    if head_dim in HEAD_DIMS:
        return
    do = ""
    if wider := next((one for one in HEAD_DIMS if 0 < head_dim < one), None):
        do = (
            f"pad q, k and v with zeros to {wider} columns (torch.nn.functional.pad), pass scale = {head_dim} ** "
            f"-0.5, and take the first {head_dim} columns of o"
        )
    raise wrong("q.shape", f"head_dim = {head_dim}", f"one of {HEAD_DIMS}{whose and f' {whose}'}", do)


_SHARED = {
    "batch": "pass {name}[:1] with q.transpose(0, 1).flatten(0, 1)[None], whose heads share it",
    "heads": "pass fewer heads_kv, {name}[:, :1]: the heads of q share those of k and v",
}
"""What to do about a dimension of k or v that was expanded: a tensor map has no stride 0."""


def check_layout(name: str, tensor: Tensor, *, by_tma: bool = False) -> None:
    """Strides and address as 16-byte loads and int32 offsets need them; strides of size-1 dimensions do not count.

    `by_tma`: tiles move by bulk tensor copies, which take coordinates, so that no offset inside a head is computed.
    """
    head_dim, contiguous = tensor.shape[-1], f"pass {name}.contiguous()"
    if tensor.stride(-1) != 1:
        raise wrong(f"{name}.stride(-1)", tensor.stride(-1), "1 (last dimension contiguous)", contiguous)
    elements = ALIGNMENT // tensor.element_size()
    for dimension, size, stride in zip(_DIMENSIONS[:3], tensor.shape, tensor.stride(), strict=False):
        if size == 1:
            continue
        if stride < head_dim:
            is_shared = stride == 0 and name in "kv"
            got = f"{stride} for {dimension} ({'overlapping rows' if stride else 'expanded'})"
            do = _SHARED.get(dimension, contiguous).format(name=name) if is_shared else contiguous
            raise wrong(f"{name}.stride()", got, f"at least head_dim = {head_dim}", do)
        if stride % elements:
            expected = f"a multiple of {elements} elements ({ALIGNMENT} bytes)"
            raise wrong(f"{name}.stride()", f"{stride} for {dimension}", expected, contiguous)
    if not by_tma and (last := (tensor.shape[2] - 1) * tensor.stride(2) + head_dim - 1) >= INT32_LIMIT:
        do = f"{contiguous} in (batch, heads, seq, head_dim) or a shorter sequence"
        got = f"a last offset of {last} elements inside one head"
        raise wrong(f"{name}.stride()", got, f"below {INT32_LIMIT} (int32)", do)
    check_address(name, tensor)


def check_overlap_within(name: str, output: Tensor) -> None:
    """Two rows of an output in one place would be one row: each dimension steps over what the finer ones cover."""
    covered = output.shape[-1]
    steps = zip(output.stride(), output.shape[:-1], _DIMENSIONS[:-1], strict=False)
    for stride, size, dimension in sorted(step for step in steps if step[1] > 1):
        if stride < covered:
            got = f"{stride} for {dimension} ({name} overlaps itself)"
            raise wrong(f"{name}.stride()", got, f"at least {covered}", "allocate it with torch.empty_like")
        covered += (size - 1) * stride


def check_aliasing(tensors: dict[str, Tensor], outputs: Sequence[str]) -> None:
    """Outputs need memory of their own, also from each other. Meta tensors have no addresses to compare."""
    if tensors["q"].device.type == "meta":
        return
    extents = {name: extent(tensor) for name, tensor in tensors.items()}
    for output in outputs:
        begin, end = extents[output]
        for name, (other_begin, other_end) in extents.items():
            apart = name == output or begin >= other_end or other_begin >= end
            if not apart and _share_elements(tensors[output], tensors[name]):
                got = f"memory that overlaps {name}"
                raise wrong(output, got, "memory of its own", "allocate it with torch.empty_like")


def _share_elements(one: Tensor, other: Tensor) -> bool:
    """Whether an address belongs to both: not where they lie interleaved in one buffer. Exact where both step alike, as
    there; True where they do not."""
    both = zip(one.stride(), other.stride(), one.shape, other.shape, strict=False)
    steps = [(step, second, size, wide) for step, second, size, wide in both if size > 1 or wide > 1]
    distance, odd = divmod(one.data_ptr() - other.data_ptr(), one.element_size())
    if odd or one.dtype != other.dtype or any(step != second for step, second, _, _ in steps):
        return True
    steps.sort()
    reaches = accumulate(((max(size, wide) - 1) * step for step, _, size, wide in steps), initial=0)
    if any(step <= reach for (step, *_), reach in zip(steps, reaches, strict=False)):
        return True  # a dimension steps into what finer ones cover

    def reached(rest: int, steps: list[tuple[int, int, int, int]]) -> bool:
        if not steps:
            return rest == 0
        (step, _, size, wide), *finer = steps
        return any(-size < n < wide and reached(rest - n * step, finer) for n in (rest // step, rest // step + 1))

    return reached(distance, steps[::-1])
