"""(technique, backend, problem, tile) -> a callable. The only importer of the kernel packages, lazily and by name.

A twin is found by its path: cuda_kernels/<operator>/<ladder>/<name>.cu, triton_kernels/<operator>/<ladder>/<name>.py.
Library peers are backends without a technique. Bad tensors are refused by the operator's `validate` before either
language sees them.
"""

from harness.build.compiling import prebuild as prebuild
from harness.build.cuda import build_cuda as build_cuda
from harness.build.cuda import constants as constants
from harness.build.cuda import gpu_arch as gpu_arch
from harness.build.cuda import workspace_bytes as workspace_bytes
from harness.build.cuda_on_cpu import CpuCudaVariant as CpuCudaVariant
from harness.build.cuda_on_cpu import plain_library as plain_library
from harness.build.cuda_on_cpu import sanitizer_environment as sanitizer_environment
from harness.build.loading import available as available
from harness.build.loading import load as load
from harness.build.triton import compile_triton as compile_triton
from harness.build.triton import environment_of as environment_of
from harness.build.variant import PeerVariant as PeerVariant
from harness.build.variant import Variant as Variant
from harness.catalog.cases import Case as Case
from harness.catalog.cases import same_program as same_program
from harness.catalog.cases import source_sha256 as source_sha256
from harness.operators.errors import CompileError as CompileError
from harness.operators.errors import DataRace as DataRace
from harness.operators.errors import Diagnosed as Diagnosed
from harness.operators.errors import LaunchError as LaunchError
from harness.operators.errors import Unsupported as Unsupported
