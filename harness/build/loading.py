"""Which backends can run here, and a case becomes its variant."""

import importlib.util

from harness import operators
from harness.build.cubins import CubinVariant
from harness.build.cuda import CudaVariant, gpu_arch
from harness.build.cuda_on_cpu import CpuCudaVariant
from harness.build.own import OwnFunction
from harness.build.triton import TritonVariant
from harness.build.variant import PeerVariant, Variant
from harness.catalog import techniques
from harness.catalog.cases import Case, declined
from harness.operators.errors import Unsupported


def available(backend: str, on: str = "gpu") -> str | None:
    """Why a backend cannot run here and what to do about it; None when it can."""
    import torch

    if on == "gpu" and not torch.cuda.is_available():
        return "no CUDA GPU here: run on a machine with one, or use --on cpu"
    if on == "cpu" and backend in operators.peers():
        return "library peers are timed on a GPU only"
    if library := next((one.libraries[backend] for one in operators.every() if backend in one.libraries), None):
        return library.fault()
    if backend in techniques.AS_CUBINS:
        return None if on == "gpu" else "a cubin runs on a GPU; `twinkernels inspect` compiles and reads it here"
    if on == "cpu" and backend == "gluon":
        return "Triton's interpreter does not run Gluon: its kernels are compiled here, and run on a GPU"
    if on == "cpu" and backend == techniques.HATCH:
        return "Triton's interpreter does not run inline PTX: a hatch is compiled here, and runs on a GPU"
    by_triton = backend.startswith("triton") or backend in ("gluon", techniques.HATCH, *operators.by_triton())
    if by_triton and importlib.util.find_spec("triton") is None:
        return "triton is not installed: pip install triton"
    if backend == "cuda":
        from cuda_kernels import cpu_build, toolchain

        try:
            toolchain.toolchain() if on == "gpu" else (cpu_build.compiler(), cpu_build.cuda_include())
        except toolchain.ToolchainError as error:
            return str(error)
    return None


def load(case: Case, on: str = "gpu") -> Variant:
    """Compiles what must be compiled and returns the variant. Raises Unsupported, CompileError, ImportError."""
    if reason := available(case.backend, on):
        raise Unsupported(reason)
    if case.kernel and case.kernel.function:
        return OwnFunction(case, on)
    if case.kernel:
        if reason := available("cuda", on):
            raise Unsupported(reason)
        return CudaVariant(case) if on == "gpu" else CpuCudaVariant(case)
    if case.technique is None:
        return PeerVariant(case)
    if reason := declined(case):
        raise Unsupported(reason)
    if on == "gpu":
        arch = gpu_arch()
        ladder = techniques.ladder_of(techniques.at(case.technique, case.problem))
        if arch not in ladder.archs:
            raise Unsupported(f"the {ladder.name} ladder is built for {', '.join(ladder.archs)}; this GPU is {arch}")
    if case.backend == "cuda":
        return CudaVariant(case) if on == "gpu" else CpuCudaVariant(case)
    if case.backend in techniques.AS_CUBINS:
        return CubinVariant(case, gpu_arch())
    if case.backend in ("triton", "triton_native", "gluon", techniques.HATCH):
        return TritonVariant(case, on)
    known = ", ".join((*techniques.SERIES, *techniques.ON_REQUEST, *operators.peers()))
    raise Unsupported(f"backend: got {case.backend!r}, expected one of {known}")
