"""The flagship without a harness around it: tensors in, tensors out."""

from __future__ import annotations

import ctypes
from functools import cache

import torch
from torch import Tensor

from harness.build.cuda import CudaVariant
from harness.build.loading import load
from harness.catalog import techniques, tiles
from harness.catalog.cases import Case
from harness.operators.attention.arguments import structure
from harness.operators.attention.problem import Problem
from harness.operators.attention.validate import check_memory, validate
from harness.operators.errors import LaunchError
from harness.rows.results import gpu_slug

FLAGSHIP = techniques.get("attention/flagship")
DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(scale * q k^T) v on a Hopper GPU, by the ladder's flagship: (o, lse).

    q: (batch, heads, seq_q, head_dim); k, v: (batch, heads_kv, seq_kv, head_dim), of one dtype, fp16 or bf16, head_dim
    64, 128 or 256, heads a multiple of heads_kv, the last dimension contiguous and the other strides multiples of 16
    bytes. `causal` is aligned bottom right: query i sees key j when j <= i + seq_kv - seq_q. `scale`: head_dim ** -0.5
    where it is None.
    o: the shape, dtype and storage order of q. lse: (batch, heads, seq_q) fp32, the natural logarithm of the sum of
    exp(scale * q.k); -inf, and 0 in o, for a row that sees no key. Forward only.

    Launched on the current stream of q's device, without waiting for it. The kernel's counters are new for each call,
    so that calls on several streams share none. The first call for a dtype, head_dim, mask and class of length builds a
    kernel, or finds it in the build folder; later calls look it up.

    Raises TypeError and ValueError that name argument, what was got and what is expected; Unsupported and CompileError
    where no kernel can be built; LaunchError with CUDA's own words.
    """
    for name, tensor in {"q": q, "k": k, "v": v}.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name}: got {type(tensor).__name__}, expected a torch.Tensor")
        check_memory(name, tensor)
    if q.dim() != 4 or q.shape[-1] == 0:
        raise ValueError(f"q.shape: got {tuple(q.shape)}, expected (batch, heads, seq, head_dim), none of them empty")
    if scale is None:
        scale = q.shape[-1] ** -0.5
    o = torch.empty_like(q, requires_grad=False)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    capability = torch.cuda.get_device_capability(q.device) if q.is_cuda else None
    validate(q, k, v, o, lse, scale=scale, causal=causal, technique=FLAGSHIP, capability=capability)
    if not q.is_cuda:
        raise ValueError(f"q.device: got {q.device}, expected a CUDA GPU (Hopper); move q, k and v with .to('cuda')")
    batch, heads, seq_q, head_dim = q.shape
    problem = Problem(batch, heads, k.shape[1], seq_q, k.shape[2], head_dim, DTYPES[q.dtype], causal)
    with torch.cuda.device(q.device):
        kernel = _kernel(q.device.index, case_of(problem, gpu_slug(torch.cuda.get_device_name(q.device))))
        workspace = torch.zeros(kernel.workspace_bytes, dtype=torch.uint8, device=q.device)
        args = structure({"q": q, "k": k, "v": v, "o": o, "lse": lse}, {"scale": scale}, workspace)
        if code := kernel.entry(ctypes.byref(args), torch.cuda.current_stream().cuda_stream):
            raise LaunchError(f"flash_attention of {problem.slug}: {torch.cuda.CudaError(code)}", code)
    return o, lse


def case_of(problem: Problem, gpu: str) -> Case:
    """The flagship at the tile that this GPU (a slug such as h200) has for the problem's head_dim, mask and class of
    length; at the reference tile where none was tuned. One case for all problems that share a kernel."""
    tile = tiles.best_tile(FLAGSHIP.name, "cuda", problem, gpu)
    alike = Problem.square(1, 1, 1, problem.head_dim, dtype=problem.dtype, causal=problem.causal)
    return Case(
        "flash_attention", FLAGSHIP.name, "cuda", alike, tile or techniques.reference_tile(FLAGSHIP, problem.head_dim)
    )


@cache
def _kernel(device: int, case: Case) -> CudaVariant:
    """Built the first time, or found in the build folder; loaded once for each GPU of this process."""
    kernel = load(case)
    assert isinstance(kernel, CudaVariant)
    return kernel
