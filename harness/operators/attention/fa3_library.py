"""FlashAttention-3 as one C library without torch, where TWINKERNELS_FA3 names its file: fa3_forward by ctypes.

The library is built from flash-attention's own source, forward alone; it is not part of this project. It takes bf16,
head_dim 64, 128 and 256, grouped heads, any strides that are multiples of 8 elements, and writes the log-sum-exp.

int fa3_forward(q, k, v, o, float* lse, int batch, int heads, int heads_kv, int seq_q, int seq_kv, int head_dim,
                int causal, const int64_t strides[12], float scale, cudaStream_t stream, int* counter, int zero_counter)
const char* fa3_build_info()
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from harness.operators.errors import LaunchError
from harness.operators.protocol import Scalars, Tensors

VARIABLE = "TWINKERNELS_FA3"
HEAD_DIMS = (64, 128, 256)
REFUSALS = {
    -1: "a pointer is null",
    -2: "a size is not positive, or heads is no multiple of heads_kv",
    -3: "head_dim is none of 64, 128, 256",
    -4: "a tensor does not start at a multiple of 16 bytes",
    -5: "a stride is no multiple of 8 elements",
    -6: "a causal problem needs a counter",
    -7: "the GPU is no Hopper",
}


def path() -> str | None:
    """The file that TWINKERNELS_FA3 names, if any."""
    return os.environ.get(VARIABLE) or None


def fault() -> str | None:
    """Why the named file cannot be used; None when it can, or when none is named."""
    if path() is None:
        return None
    try:
        _load()
    except (OSError, AttributeError) as error:
        return f"{VARIABLE}: got {path()!r}, expected a library with fa3_forward and fa3_build_info ({error})"
    return None


def build_info() -> str:
    """What the library says of its source and compiler. Raises OSError and AttributeError for a bad file."""
    info = _load().fa3_build_info
    info.restype = ctypes.c_char_p
    return info().decode()


def bind(tensors: Tensors, scalars: Scalars) -> Callable[[], Tensors]:
    """A call that launches on the current stream, writes o and lse and returns them. The tensors are checked already.

    A causal launch deals its tiles out by a counter, which the library zeroes on the stream each time, as
    FlashAttention-3's own wrapper does.
    """
    import torch

    q, k, v, o, lse = (tensors[name] for name in ("q", "k", "v", "o", "lse"))
    forward = _load().fa3_forward
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    sizes = (*q.shape[:2], k.shape[1], q.shape[2], k.shape[2], q.shape[3], int(scalars["causal"]))
    strides = [step for x in (q, k, v, o) for step in (x.stride(0), x.stride(2), x.stride(1))]
    forward.argtypes = [
        *[pointer] * 5,
        *[integer] * len(sizes),
        ctypes.POINTER(ctypes.c_int64),
        *(ctypes.c_float, pointer, pointer, integer),
    ]
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    fixed = (*(x.data_ptr() for x in (q, k, v, o, lse)), *sizes, (ctypes.c_int64 * 12)(*strides), scalars["scale"])
    stream = torch._C._cuda_getCurrentRawStream if q.is_cuda else lambda device: None
    device = q.device.index

    written = {"o": o, "lse": lse}

    def call(keep_alive: tuple[Any, ...] = (q, k, v, o, lse, counter)) -> Tensors:
        if code := forward(*fixed, stream(device), counter.data_ptr(), 1):
            raise LaunchError(f"fa3: {REFUSALS.get(code, f'CUDA error {code}')}", code)
        return written

    return call


def _load() -> Any:
    library = ctypes.CDLL(os.path.abspath(path() or ""))
    library.fa3_forward, library.fa3_build_info  # noqa: B018  # AttributeError where one is missing
    return library
