"""Machine code of both languages, with or without a GPU: registers, spills, shared memory, a census of instructions.

One disassembler reads both: the cuobjdump of the Triton wheel. A census counts instructions as they stand in the code
(static counts, not executions) and holds every name of CENSUS, zero or not.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import doctor, sources, variants

CENSUS = {
    "HMMA": "mma.sync on 16-bit operands",
    "HGMMA": "wgmma on 16-bit operands",
    "LDSM": "ldmatrix",
    "LDSM.T": "ldmatrix.trans",
    "LDSM.x4": "ldmatrix of four matrices, transposed or not",
    "LDGSTS": "cp.async: global to shared memory, past the registers",
    "UTMALDG": "TMA load",
    "UTMASTG": "TMA store",
    "SYNCS": "mbarrier operations",
    "USETMAXREG": "setmaxnreg",
    "BAR": "barriers of a block or of named warps",
    "MUFU.EX2": "2 to the power of x",
    "FFMA": "fp32 fused multiply-add",
    "FMUL": "fp32 multiplication",
    "FADD": "fp32 addition",
    "SHFL": "shuffles between the lanes of a warp",
    "LDG.32": "loads of 4 bytes from global memory",
    "LDG.64": "loads of 8 bytes from global memory",
    "LDG.128": "loads of 16 bytes from global memory",
    "STG.32": "stores of 4 bytes to global memory",
    "STG.64": "stores of 8 bytes to global memory",
    "STG.128": "stores of 16 bytes to global memory",
    "LDS.32": "loads of 4 bytes from shared memory",
    "LDS.64": "loads of 8 bytes from shared memory",
    "LDS.128": "loads of 16 bytes from shared memory",
    "STS.32": "stores of 4 bytes to shared memory",
    "STS.64": "stores of 8 bytes to shared memory",
    "STS.128": "stores of 16 bytes to shared memory",
    "LDL": "loads from local memory: spilled registers come back",
    "STL": "stores to local memory: registers are spilled",
    "instructions": "all instructions but NOP and those that are never executed (predicate @!PT)",
}
"""What is counted. 8- and 16-bit accesses (LDG.16, STS.8, ...) are added where a kernel has them."""

CACHE = sources.ROOT / "build" / "disassembled"
RESERVED_SHARED_MEMORY = 1024
"""Bytes per block that CUDA keeps for itself from sm_90 on; cuobjdump counts them as the kernel's."""

_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?\w+)\s+)?([A-Z]\w*(?:\.\w+)*)")
_ENCODING = re.compile(r"/\* (0x[0-9a-f]{16}) \*/\s*$")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")


class DisassemblerError(RuntimeError):
    """cuobjdump is missing or rejects a file."""


@dataclass(frozen=True)
class Binary:
    """The device code of a cubin or shared library."""

    registers: int
    """Per thread."""
    stack_bytes: int
    """Local memory per thread: spilled registers and arrays that could not stay in registers."""
    static_smem_bytes: int
    census: dict[str, int]
    sass_sha256: str
    """Over the encoded instructions alone: no names, no addresses, no line information."""


@functools.cache
def disassembler() -> Path:
    """cuobjdump of the Triton wheel, else the one on PATH. Raises DisassemblerError when there is none."""
    spec = importlib.util.find_spec("triton")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "backends/nvidia/bin/cuobjdump"
        if bundled.is_file():
            return bundled
    if on_path := shutil.which("cuobjdump"):
        return Path(on_path)
    raise DisassemblerError("cuobjdump: got none, expected the Triton wheel's; install it with: pip install triton")


def disassemble(path: Path, cache: Path = CACHE) -> Binary:
    """Reads a cubin, or the one architecture of a shared library. Raises DisassemblerError.

    That takes up to a second for a large kernel, so what it says is kept in `cache`, by the file's bytes.
    """
    known = hashlib.sha256(Path(__file__).read_bytes() + path.read_bytes()).hexdigest()
    kept = cache / f"{known}.json"
    if kept.is_file():
        return Binary(**json.loads(kept.read_text()))
    binary = _disassemble(path)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=cache, suffix=".part", delete=False) as part:
        json.dump(asdict(binary), part)
    os.replace(part.name, kept)
    return binary


def _disassemble(path: Path) -> Binary:
    done = subprocess.run([disassembler(), "-sass", "-res-usage", str(path)], capture_output=True, text=True)
    usage = [tuple(map(int, found)) for found in _USAGE.findall(done.stdout)]
    archs = set(re.findall(r"^\s*(?:code for|\.target) sm_(\d+)", done.stdout, re.MULTILINE))
    if done.returncode or not usage or len(archs) != 1:
        words = done.stderr.strip() or f"{len(usage)} kernels for {sorted(archs)}, expected one architecture"
        raise DisassemblerError(f"{disassembler().name} {path.name}: {words}")
    reserved = RESERVED_SHARED_MEMORY if int(archs.pop()) >= 90 else 0
    registers, stack, shared = (max(column) for column in zip(*usage, strict=True))
    counts, digest = _count(done.stdout)
    return Binary(registers, stack, max(shared - reserved, 0), counts, digest)


def _count(sass: str) -> tuple[dict[str, int], str]:
    counts: Counter[str] = Counter()
    digest = hashlib.sha256()
    for line in sass.splitlines():
        if encoding := _ENCODING.search(line):
            digest.update(encoding[1].encode())
        instruction = _INSTRUCTION.match(line)
        if instruction and instruction[1] != "!PT" and instruction[2] != "NOP":
            counts.update(_names(instruction[2]))
    return {name: counts[name] for name in (*CENSUS, *sorted(set(counts) - set(CENSUS)))}, digest.hexdigest()


def _names(opcode: str) -> list[str]:
    """Under which names of the census an instruction counts: STS.128 for STS.E.128, LDSM.T and LDSM.x4 for a
    transposed ldmatrix of four matrices."""
    base, *modifiers = opcode.split(".")
    names = ["instructions"]
    if base in ("LDG", "STG", "LDS", "STS"):
        bits = next((word.lstrip("US") for word in modifiers if re.fullmatch(r"[US]?(8|16|64|128|256)", word)), "32")
        names.append(f"{base}.{bits}")
    elif base == "LDSM":
        names.append("LDSM.T" if any(word.startswith("MT") for word in modifiers) else "LDSM")
        if modifiers[-1] == "4":
            names.append("LDSM.x4")
    elif base == "MUFU":
        names += ["MUFU.EX2"] if "EX2" in modifiers else []
    elif base in CENSUS:
        names.append(base)
    return names


def census(path: Path) -> dict[str, int]:
    """Name of CENSUS -> how many such instructions the binary has. Raises DisassemblerError."""
    return disassemble(path).census


def mma_class(census: Mapping[str, int]) -> str:
    """wgmma, mma_sync or fma: the instruction class that does the matrix products."""
    if census["HGMMA"]:
        return "wgmma"
    return "mma_sync" if census["HMMA"] else "fma"


def read(path: Path, *, smem_bytes: int) -> dict[str, Any]:
    """The `code` of a row. `smem_bytes` is the shared memory that the launch asks for; static memory is added.

    Raises DisassemblerError.
    """
    binary = disassemble(path)
    return {
        "registers": binary.registers,
        "spill_bytes": binary.stack_bytes,
        "smem_bytes": smem_bytes + binary.static_smem_bytes,
        "census": binary.census,
        "sass_sha256": binary.sass_sha256,
    }


def read_triton(compiled: Any) -> dict[str, Any]:
    """The `code` of a row for a triton.compiler.CompiledKernel, loaded or compiled ahead of time."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(compiled.asm["cubin"])
        cubin.flush()
        return read(Path(cubin.name), smem_bytes=compiled.metadata.shared)


def triton_compiler(compiled: Any) -> dict[str, str]:
    """The `compiler` of a row for a triton.compiler.CompiledKernel of this process."""
    from triton.backends.nvidia.compiler import get_ptxas_version

    metadata = compiled.metadata
    levers = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")
    flags = [f"{name}={getattr(metadata, name)}" for name in levers if getattr(metadata, name) is not None]
    if os.environ.get("DISABLE_MMA_V3") == "1":
        flags.append("DISABLE_MMA_V3=1")
    release = re.search(r"V([\d.]+)", get_ptxas_version(metadata.target.arch))
    return {
        "front_end": f"triton {metadata.triton_version}",
        "ptxas": release[1] if release else "unknown",
        "flags": " ".join(flags),
    }


def inspect(case: variants.Case, arch: str, ptxas: str = "bundled") -> dict[str, Any]:
    """Compiles a case for `arch`, here or not, and returns its row's `code`, `compiler` and `mma`.

    `ptxas` "shared" assembles Triton's PTX with nvcc's ptxas instead of Triton's own. Triton reads its environment
    once, so a process needs variants.environment_of(case) from its start and keeps to one `ptxas`.
    Raises RuntimeError when the environment differs, ValueError for another `ptxas`, and what the compilers raise.
    """
    if ptxas not in ("bundled", "shared"):
        raise ValueError(f"ptxas: got {ptxas!r}, expected bundled (each language's own) or shared (nvcc's for both)")
    if case.backend == "cuda":
        built = variants.build_cuda(case, arch)
        code = read(built.library, smem_bytes=ctypes.CDLL(str(built.library)).shared_memory_bytes())
        compiler = variants.cuda_compiler(built)
    else:
        variants.require_environment(case)
        if ptxas == "shared":
            os.environ.update(shared_assembler())
        compiled = variants.compile_triton(case, arch)
        code, compiler = read_triton(compiled), triton_compiler(compiled)
    return {"code": code, "compiler": compiler, "mma": mma_class(code["census"])}


def shared_assembler() -> dict[str, str]:
    """Variables that make Triton assemble with nvcc's ptxas, for every architecture. Raises FileNotFoundError."""
    nvcc = doctor.nvcc()
    if nvcc is None:
        raise FileNotFoundError("ptxas: got shared without an nvcc; `twinkernels doctor` says how to get one")
    path = str(Path(nvcc).resolve().with_name("ptxas"))
    return {"TRITON_PTXAS_PATH": path, "TRITON_PTXAS_BLACKWELL_PATH": path}
