"""(technique, backend, problem, tile) -> a callable. The only importer of the kernel packages, lazily and by name.

A twin is found by its path: cuda_kernels/<operator>/<ladder>/<name>.cu, triton_kernels/<operator>/<ladder>/<name>.py.
Library peers are backends without a technique. Bad tensors are refused by the operator's `validate` before either
language sees them.
"""

from harness.build.compiling import prebuild
from harness.build.cuda import (
    build_cuda,
    constants,
    gpu_arch,
    workspace_bytes,
)
from harness.build.cuda_on_cpu import CpuCudaVariant, plain_library, sanitizer_environment
from harness.build.loading import available, load
from harness.build.triton import compile_triton, environment_of
from harness.build.variant import PeerVariant, Variant
from harness.catalog.cases import Case, same_program, source_sha256
from harness.operators.errors import CompileError, DataRace, Diagnosed, LaunchError, Unsupported

__all__ = [
    "Case",
    "CompileError",
    "CpuCudaVariant",
    "DataRace",
    "Diagnosed",
    "LaunchError",
    "PeerVariant",
    "Unsupported",
    "Variant",
    "available",
    "build_cuda",
    "compile_triton",
    "constants",
    "environment_of",
    "gpu_arch",
    "load",
    "plain_library",
    "prebuild",
    "same_program",
    "sanitizer_environment",
    "source_sha256",
    "workspace_bytes",
]
