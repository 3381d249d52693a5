"""What machine and software a run was made with, and what the GPU could do at best.

Works without a GPU. Nothing here names a person, a host or a place on disk: what a run records may be published.
"""

import hashlib
import importlib.util
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from cuda_kernels import cpu_build, toolchain
from harness.catalog.sources import ROOT, harness_id
from harness.machine import clocks

VARIABLES = re.compile(r"(TRITON|CUDA|TORCH|PYTORCH|DISABLE_MMA|NVIDIA_TF32)\w*|OMP_NUM_THREADS|MAX_JOBS")
"""Environment variables that change what is compiled or how it runs."""

PACKAGES = (
    *("triton", "numpy", "flash-attn", "flash-attn-4"),
    *("nvidia-cublas", "nvmath-python", "sgl-deep-gemm", "quack-kernels"),
)
"""Whose versions an environment has beside torch's, under the name of the package."""

SOURCES = re.compile("(cuda_kernels|triton_kernels|harness|experiments|reports)/")
"""Where a file that git does not know may change what is measured or shown."""

TENSOR_FLOPS = {(8, 0): 2048, (8, 6): 512, (8, 9): 1024, (9, 0): 4096, (12, 0): 1024}
"""Dense 16-bit tensor-core FLOP per SM and clock with fp32 accumulation, by capability (NVIDIA's whitepapers)."""

FP32_FLOPS = {(8, 0): 128, (8, 6): 256, (8, 9): 256, (9, 0): 256, (12, 0): 256}
"""fp32 FLOP per SM and clock, a fused multiply-add counted as two."""


def describe(argv: list[str] | None = None) -> dict[str, Any]:
    """The `details` of a run's environment row: gpu and peaks (None without a GPU), software, toolchain, variables,
    system, harness, git, argv, warnings. Unknown values are None."""
    import torch

    gpu, git, tools = _gpu(), _git(), toolchain.find(toolchain.homes())
    return {
        "gpu": gpu,
        "peaks": peaks(gpu),
        "software": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda_runtime": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
            **{name: _version(name) for name in PACKAGES},
            "flash-attn-3": (version := _version("fa3-fwd")) and f"fa3-fwd {version}",
        },
        "toolchain": {
            "nvcc": tools and tools.nvcc,
            "ptxas": tools and tools.ptxas,
            "triton_ptxas": triton_ptxas(),
        },
        "variables": {name: scrub(value) for name, value in sorted(os.environ.items()) if VARIABLES.fullmatch(name)},
        "system": {
            "os": f"{platform.system()} {platform.machine()}",
            "kernel": platform.release(),
            "cpu": _cpu(),
            "cpu_count": os.cpu_count(),
            "cxx": _cxx(),
        },
        "harness": harness_id(),
        "git": git,
        "argv": [scrub(argument) for argument in (sys.argv if argv is None else argv)],
        "warnings": _warnings(gpu, git),
    }


def boards() -> list[dict[str, str]]:
    """GPUs that this process sees: for each, the variables with which another process sees it alone."""
    import torch

    count = torch.cuda.device_count()
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return [{"CUDA_VISIBLE_DEVICES": name} for name in (names or map(str, range(count)))][:count]


def peaks(gpu: dict[str, Any] | None) -> dict[str, float | None] | None:
    """{tensor_tflops, fp32_tflops, bytes_per_s} at the highest clocks; an entry is None where the GPU is not in the
    tables. None without a GPU."""
    if gpu is None:
        return None

    def tflops(table: dict[tuple[int, int], int]) -> float | None:
        per_clock = table.get((gpu["capability"][0], gpu["capability"][1]))
        clock = gpu["max_sm_mhz"]
        return round(gpu["sm_count"] * clock * per_clock / 1e6, 1) if per_clock and clock else None

    clock, width = gpu["max_memory_mhz"], gpu["memory_bus_bits"]
    return {
        "tensor_tflops": tflops(TENSOR_FLOPS),
        "fp32_tflops": tflops(FP32_FLOPS),
        "bytes_per_s": 2e6 * clock * width / 8 if clock and width else None,  # double data rate
    }


def headline(words: str) -> str:
    """The first line of what went wrong, without what `scrub` hides. Of a compiler, which speaks below a headline, its
    first error too."""
    first, *rest = scrub(words).strip().split("\n")
    if first.endswith(":"):
        first += next((f" {line.strip()}" for line in rest if "error" in line), "")
    return first


def scrub(text: str) -> str:
    """`text` without folders, user and host of this machine: the checkout becomes ".", other paths their last name."""
    text = re.sub(rf"{re.escape(str(ROOT))}(?![\w-])", ".", text)
    text = re.sub(r"(?<![\w./])/(?:[^\s/:\"'()]+/)+([^\s/:\"'()]*)", r"\1", text)
    for private in (platform.node(), os.environ.get("USER", "")):
        if len(private) > 3 and private != "root":
            text = re.sub(rf"\b{re.escape(private)}\b", "...", text)
    return text


def _gpu() -> dict[str, Any] | None:
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    uuid = str(getattr(properties, "uuid", ""))
    gpu = {
        "name": properties.name,
        "uuid_sha256": hashlib.sha256(uuid.encode()).hexdigest()[:12],
        "capability": [properties.major, properties.minor],
        "sm_count": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "memory_bytes": properties.total_memory,
    }
    device = clocks.device(uuid)
    if device is None:
        unknown = ("driver", "max_sm_mhz", "max_memory_mhz", "memory_bus_bits", "power_limit_w", "ecc", "mig")
        return gpu | dict.fromkeys((*unknown, "persistence", "other_processes", "utilization"))
    nvml = device.nvml
    ecc, mig, used = device.ask("EccMode"), device.ask("MigMode"), device.ask("UtilizationRates")
    processes = device.ask("ComputeRunningProcesses")
    return gpu | {
        "driver": nvml.nvmlSystemGetDriverVersion(),
        "max_sm_mhz": device.ask("MaxClockInfo", nvml.NVML_CLOCK_SM),
        "max_memory_mhz": device.ask("MaxClockInfo", nvml.NVML_CLOCK_MEM),
        "memory_bus_bits": device.ask("MemoryBusWidth"),
        "power_limit_w": device.watts("EnforcedPowerLimit"),
        "ecc": ecc and bool(ecc[0]),
        "mig": mig and bool(mig[0]),
        "persistence": device.ask("PersistenceMode"),
        "other_processes": None if processes is None else sum(process.pid != os.getpid() for process in processes),
        "utilization": used and used.gpu,
    }


def _warnings(gpu: dict[str, Any] | None, git: dict[str, Any]) -> list[str]:
    warnings = []
    if gpu and gpu["other_processes"]:
        warnings.append(f"{gpu['other_processes']} other processes use the GPU: times may be disturbed")
    if gpu and (gpu["utilization"] or 0) > 5:
        warnings.append(f"the GPU was {gpu['utilization']}% busy before the run: times may be disturbed")
    if git["dirty"]:
        warnings.append("the checkout has uncommitted changes: rows will say so")
    return warnings


def _git() -> dict[str, Any]:
    """{sha, dirty}; both None where there is no git or no commit. A copy of the tree without its history says in
    TWINKERNELS_COMMIT what it is a copy of."""
    if copied := os.environ.get("TWINKERNELS_COMMIT"):
        return {"sha": copied.removesuffix("-dirty"), "dirty": copied.endswith("-dirty")}

    def ask(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    status = ask("status", "--porcelain")
    changed = [line for line in (status or "").splitlines() if not line.startswith("?? ") or SOURCES.match(line[3:])]
    return {"sha": ask("rev-parse", "HEAD"), "dirty": None if status is None else bool(changed)}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def triton_ptxas() -> str | None:
    """Release of the ptxas with which Triton assembles, such as 12.8.93; None where there is none."""
    if chosen := os.environ.get("TRITON_PTXAS_PATH"):
        return toolchain.release(Path(chosen))
    spec = importlib.util.find_spec("triton")  # found, not imported: Triton reads its settings when it is
    path = Path(spec.origin).parent / "backends/nvidia/bin/ptxas" if spec and spec.origin else None
    return toolchain.release(path) if path and path.exists() else None


def _cxx() -> str | None:
    """What compiles for the CPU, as it names itself."""
    try:
        command = [cpu_build.compiler(), "--version"]
    except toolchain.ToolchainError:
        return None
    return subprocess.run(command, capture_output=True, text=True).stdout.partition("\n")[0]


def _cpu() -> str | None:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        return None
    return found[1].strip() if found else platform.processor() or None
