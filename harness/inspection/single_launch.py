"""One launch of one case in a process that does little else, for a tool that watches all that the process does.

    python -m harness.inspection.single_launch REQUEST [RESULT]

REQUEST is a JSON file, {"case": ..., "arch": ...}; RESULT gets {"status": ..., "reason": ...}. Without RESULT a CUDA
kernel is built, so that the next process finds it, and nothing is launched.

A CUDA kernel runs without torch: importing it costs more than all else, and its allocator would place tensors side by
side. Each tensor is an allocation of its exact size, and the outputs are left as the driver gives them: what the kernel
does not write was never written.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import sys
import traceback
from array import array
from pathlib import Path
from typing import Any

from harness import variants
from harness.catalog.cases import Case, declined
from harness.catalog.problem import Problem, Tile
from harness.variants import cuda_driver


def to_dict(case: Case) -> dict[str, Any]:
    """The case for JSON, as `from_dict` reads it."""
    assert case.tile is not None
    return {**vars(case), "problem": case.problem.to_dict(), "tile": case.tile.to_dict()}


def from_dict(data: dict[str, Any]) -> Case:
    return Case(**{**data, "problem": Problem.from_dict(data["problem"]), "tile": Tile.from_dict(data["tile"])})


class Driver:
    """The CUDA driver and its primary context on the first GPU, which the kernel's own runtime shares.

    Raises variants.LaunchError for an error of the driver's, OSError where there is no driver.
    """

    def __init__(self) -> None:
        device, context = ctypes.c_int(), ctypes.c_void_p()
        cuda_driver.call("cuInit", 0)
        cuda_driver.call("cuDeviceGet", ctypes.byref(device), 0)
        cuda_driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        cuda_driver.call("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> int:
        """The address of `size` bytes."""
        pointer = ctypes.c_uint64()
        cuda_driver.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def upload(self, data: bytes) -> int:
        """The address of a copy of `data`."""
        pointer = self.allocate(len(data))
        cuda_driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), data, ctypes.c_size_t(len(data)))
        return pointer

    def download(self, pointer: int, size: int) -> bytes:
        """A copy of so many bytes of the GPU's memory."""
        data = ctypes.create_string_buffer(size)
        cuda_driver.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(pointer), ctypes.c_size_t(size))
        return data.raw

    def synchronize(self) -> None:
        """Waits for the GPU. Raises variants.LaunchError for what a launch did."""
        cuda_driver.call("cuCtxSynchronize")


def normal(count: int, dtype: str, seed: int) -> bytes:
    """`count` numbers from N(0, 1) as fp16 or bf16."""
    generator = random.Random(seed)
    numbers = [generator.gauss(0.0, 1.0) for _ in range(count)]
    if dtype == "fp16":
        return struct.pack(f"<{count}e", *numbers)
    fp32, bf16 = array("f", numbers).tobytes(), bytearray(2 * count)
    bf16[0::2], bf16[1::2] = fp32[2::4], fp32[3::4]  # the upper half of each fp32
    return bytes(bf16)


def strides(problem: Problem, heads: int, rows: int) -> tuple[int, ...]:
    """Elements between batches, heads and rows of a packed tensor; 0 for a dimension of size 1."""
    sizes = (problem.batch, heads, rows)
    steps = problem.packed_strides(heads, rows)
    return tuple(step if size > 1 else 0 for size, step in zip(sizes, steps, strict=True))


def build(case: Case, arch: str) -> Path:
    """The library of a CUDA kernel, built without torch. Raises variants.CompileError."""
    return variants.build_cuda(case, arch, inline=False).library


def launch_cuda(case: Case, arch: str) -> None:
    """Raises variants.CompileError, variants.LaunchError."""
    p = case.problem
    library = ctypes.CDLL(str(build(case, arch)))
    driver = Driver()
    q, kv = (p.heads, p.seq_q), (p.heads_kv, p.seq_kv)
    o_bytes, lse_bytes = 2 * p.batch * p.heads * p.seq_q * p.head_dim, 4 * p.batch * p.heads * p.seq_q
    inputs = [
        driver.upload(normal(p.batch * heads * rows * p.head_dim, p.dtype, seed))
        for seed, (heads, rows) in enumerate((q, kv, kv))
    ]
    o, lse = driver.allocate(o_bytes), driver.allocate(lse_bytes)
    scratch = variants.workspace_bytes(library, p)
    workspace = driver.upload(bytes(scratch)) if scratch else None
    args = variants.AttentionArgs(
        *(*inputs, o, lse, workspace),
        *(strides(p, *shape) for shape in (q, kv, kv, q)),
        *(p.batch, p.heads, p.heads_kv, p.seq_q, p.seq_kv, p.scale),
    )
    library.launch.argtypes = [ctypes.POINTER(variants.AttentionArgs), ctypes.c_void_p]
    if code := library.launch(ctypes.byref(args), None):
        raise variants.LaunchError(f"{case}: the launcher's CUDA error {code}", code)
    driver.synchronize()
    driver.download(o, o_bytes)
    if not any(driver.download(lse, lse_bytes)):
        raise RuntimeError(f"{case}: the log-sum-exp holds nothing but zeros: the kernel did not run")


def launch_triton(case: Case) -> None:
    """Raises variants.Unsupported and what Triton raises."""
    import torch

    from harness.operators.attention import inputs

    variant = variants.load(case)
    sample = inputs.sample(case.problem, "normal", 0, "cpu")

    def stored(tensor: torch.Tensor) -> torch.Tensor:
        """A copy on the GPU, in the problem's layout, made without a kernel of torch's."""
        if case.problem.layout == "bshd":
            return tensor.transpose(1, 2).contiguous().cuda().transpose(1, 2)
        return tensor.cuda()

    q, k, v = stored(sample.q), stored(sample.k), stored(sample.v)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    variant.launch(q, k, v, o, lse, scale=case.problem.scale, causal=case.problem.causal)
    torch.cuda.synchronize()
    o.cpu()
    if not lse.cpu().any():
        raise RuntimeError(f"{case}: the log-sum-exp holds nothing but zeros: the kernel did not run")


def outcome(case: Case, arch: str) -> dict[str, str]:
    """Launches the case: {"status": ..., "reason": ...}."""
    try:
        if reason := declined(case):
            raise variants.Unsupported(reason)
        if case.backend == "cuda":
            launch_cuda(case, arch)
        else:
            launch_triton(case)
    except Exception as error:
        from harness.machine import environment
        from harness.measure import service  # these import torch

        traceback.print_exc()
        reason = environment.scrub(f"{type(error).__name__}: {error}").split("\n")[0]
        return {"status": service.status_of(error, "launch"), "reason": reason}
    return {"status": "passed"}


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    case, arch = from_dict(asked["case"]), asked["arch"]
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(outcome(case, arch)))
    else:
        build(case, arch)
