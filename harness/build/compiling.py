"""Compiling without loading: many kernels ahead of a run, or one for an architecture that need not be here."""

import ctypes
import os
from collections.abc import Callable, Iterable
from typing import Any

from harness import operators
from harness.build import cubins, machine_code
from harness.build.cuda import build_cuda, constants, cuda_compiler, gpu_arch, shared_memory_bytes
from harness.build.triton import compile_triton, environment_of, require_environment
from harness.catalog import techniques
from harness.catalog.cases import Case, declined
from harness.machine import processes
from harness.operators.errors import Unsupported


def prebuild(
    cases: Iterable[Case],
    progress: Callable[[int, int, str], None] | None = None,
    *,
    seconds: float = 300.0,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Compiles the kernels of all cases in parallel, as this GPU will load them, in processes that have their
    environment: those that a peer launches, too, where they are of this project. `progress(done, total, label)` follows
    each.

    A compilation that takes longer than `seconds` is ended; all are as soon as `stop()`. A kernel that does not compile
    is left for `load` and the first launch, which say so in its row.
    """
    arch = gpu_arch()
    jobs: dict[tuple[tuple[str, str], ...], dict[Any, processes.Job]] = {}
    for case in map(_launched, cases):
        if case.technique is None or case.tile is None or case.backend in techniques.AS_CUBINS:
            continue
        if declined(case):
            continue
        path = techniques.at(case.technique, case.problem).path
        if case.backend == "cuda":
            jobs.setdefault((), {})[path, *sorted(constants(case).items())] = _build_library, (case, arch)
        else:
            environment = tuple(sorted((environment_of(case) or {}).items()))
            program = case.backend, path, case.problem, case.tile
            jobs.setdefault(environment, {})[program] = _compile_program, (case, arch)
    done, total = 0, sum(map(len, jobs.values()))
    for environment, group in jobs.items():
        found = processes.answers(group.values(), dict(environment), seconds=seconds, stop=stop)
        for (_, (case, _)), answer in found:
            done += 1
            if progress:
                progress(done, total, f"{case} (failed)" if isinstance(answer, processes.NoAnswer) else str(case))


def _launched(case: Case) -> Case:
    """The kernel of this project that a peer launches; the case itself where it is no such peer."""
    of = operators.of(case.problem)
    kernel = of.peer_kernel(case.backend, case.problem) if case.is_peer and of.peer_kernel else None
    return kernel or case


def _build_library(case: Case, arch: str) -> None:
    machine_code.disassemble(build_cuda(case, arch).library)  # the gate wants it: here it is read in parallel


def _compile_program(case: Case, arch: str) -> None:
    """Leaves the Triton program in Triton's cache, where the launcher finds it."""
    machine_code.read_triton(compile_triton(case, arch))


def inspect(case: Case, arch: str, ptxas: str = "bundled") -> dict[str, Any]:
    """Compiles a case for `arch`, here or not, and returns its row's `code`, `compiler` and `mma`.

    `ptxas` "shared" assembles Triton's PTX with nvcc's ptxas instead of Triton's own. Triton reads its environment
    once, so a process needs build.environment_of(case) from its start and keeps to one `ptxas`.
    Raises RuntimeError when the environment differs, ValueError for another `ptxas`, and what the compilers raise.
    """
    if ptxas not in ("bundled", "shared"):
        raise ValueError(f"ptxas: got {ptxas!r}, expected bundled (each language's own) or shared (nvcc's for both)")
    if case.backend == "cuda" or case.kernel:
        built = build_cuda(case, arch)
        shared_memory = shared_memory_bytes(ctypes.CDLL(str(built.library)))
        code = machine_code.read(built.library, smem_bytes=shared_memory, log=built.log)
        compiler = cuda_compiler(built)
    elif case.backend in techniques.AS_CUBINS:
        if ptxas == "shared":
            raise Unsupported(f"{case.backend}: assembled by its own Triton alone; leave out --ptxas shared")
        about = cubins.compile(case, arch)
        code, compiler = about["code"], about["compiler"]
    else:
        require_environment(case)
        if ptxas == "shared":
            _assemble_by_nvcc()
        compiled = compile_triton(case, arch)
        code, compiler = machine_code.read_triton(compiled), machine_code.triton_compiler(compiled)
    return {"code": code, "compiler": compiler, "mma": machine_code.mma_class(code["census"])}


def _assemble_by_nvcc() -> None:
    """From here on, in this process. Triton keeps the version of a ptxas it was asked for: its cache goes by that, and
    so does `compiler` of a row."""
    from triton.backends.nvidia.compiler import get_ptxas_version

    os.environ.update(shared_assembler())
    get_ptxas_version.cache_clear()


def shared_assembler() -> dict[str, str]:
    """Variables that make Triton assemble with nvcc's ptxas, for every architecture. Raises FileNotFoundError."""
    from cuda_kernels import toolchain

    if (tools := toolchain.find(toolchain.homes())) is None:
        raise FileNotFoundError("ptxas: got shared without an nvcc; `twinkernels doctor` says how to get one")
    path = str((tools.bin / "nvcc").resolve().with_name("ptxas"))
    return {"TRITON_PTXAS_PATH": path, "TRITON_PTXAS_BLACKWELL_PATH": path}
