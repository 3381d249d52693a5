"""Machine code of both languages, with or without a GPU: registers, spills, shared memory, a census of instructions.

One disassembler reads both: the cuobjdump of the Triton wheel. A census counts instructions as they stand in the code
(static counts, not executions) and holds every name of CENSUS, zero or not.
"""

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.build import instruction_order
from harness.catalog import sources

CENSUS = {
    "HMMA": "mma.sync on 16-bit operands",
    "HGMMA": "wgmma on 16-bit operands",
    "WARPGROUP.ARRIVE": "fences before wgmma",
    "WARPGROUP.DEPBAR": "waits for groups of wgmma",
    "LDSM": "ldmatrix",
    "LDSM.T": "ldmatrix.trans",
    "LDSM.x4": "ldmatrix of four matrices, transposed or not",
    "STSM": "stmatrix",
    "LDGSTS": "cp.async: global to shared memory, past the registers",
    "UTMALDG": "TMA load",
    "UTMALDG.MULTICAST": "TMA load into several blocks of a cluster",
    "UTMASTG": "TMA store",
    "SYNCS": "mbarrier operations",
    "USETMAXREG": "setmaxnreg",
    "BAR": "barriers of a block or of named warps",
    "BAR.ARV": "arrivals at a barrier at which others wait",
    "UCGABAR": "barriers of a cluster",
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
"""What is counted. 8- and 16-bit accesses (LDG.16, STS.8, ...), and tcgen05.mma on 16-bit operands (UTCHMMA), are added
where a kernel has them."""

CACHE = sources.CACHE / "disassembled"
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
    main_loop: dict[str, Any] | None = None
    """What instruction_order.read says."""
    setmaxnreg: list[int] = field(default_factory=list)
    """Registers a thread that setmaxnreg leaves or takes, in ascending order."""


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
    """Reads a cubin, or the one architecture of a shared library. Raises DisassemblerError. That takes up to a second
    for a large kernel, so what it says is kept in `cache`, by the file's bytes."""
    readers = (Path(__file__), Path(instruction_order.__file__))
    known = hashlib.sha256(b"".join(file.read_bytes() for file in (*readers, path))).hexdigest()
    kept = cache / f"{known}.json"
    if kept.is_file():
        return Binary(**json.loads(kept.read_text()))
    binary = _disassemble(path)
    sources.put(kept, json.dumps(asdict(binary)).encode())
    return binary


def listing(path: Path, *options: str) -> str:
    """What cuobjdump prints of a cubin, a shared library or an executable. Raises DisassemblerError."""
    if not path.is_file():
        raise DisassemblerError(f"{path.name}: got no regular file, expected a library or cubin")
    done = subprocess.run([disassembler(), *options, str(path)], capture_output=True, text=True)
    if done.returncode:
        raise DisassemblerError(f"{disassembler().name} {path.name}: {done.stderr.strip()}")
    return done.stdout


def main_loops(path: Path) -> list[dict[str, Any]]:
    """{kernel, main_loop} of every kernel of a binary that has wgmma and exponentials in a loop. main_loop is what
    instruction_order.read says: of several such loops the shortest, the steps without a mask. Raises DisassemblerError.
    """
    _, *found = re.split(r"^\s*Function : (\S+)$", listing(path, "-sass"), flags=re.MULTILINE)
    if not found:
        raise DisassemblerError(f"{path.name}: got a file without kernels")
    loops = zip(found[::2], map(instruction_order.read, found[1::2]), strict=True)
    return [{"kernel": name, "main_loop": loop} for name, loop in loops if loop]


def _disassemble(path: Path) -> Binary:
    text = listing(path, "-sass", "-res-usage")
    usage = [tuple(map(int, found)) for found in _USAGE.findall(text)]
    archs = set(re.findall(r"^\s*(?:code for|\.target) sm_(\d+)", text, re.MULTILINE))
    if not usage or len(archs) != 1:
        words = f"{len(usage)} kernels for {sorted(archs)}, expected one architecture"
        raise DisassemblerError(f"{disassembler().name} {path.name}: {words}")
    reserved = RESERVED_SHARED_MEMORY if int(archs.pop()) >= 90 else 0
    registers, stack, shared = (max(column) for column in zip(*usage, strict=True))
    counts, digest = count(text)
    loop, moved = instruction_order.read(text), instruction_order.setmaxnreg(text)
    return Binary(registers, stack, max(shared - reserved, 0), counts, digest, loop, moved)


def count(sass: str) -> tuple[dict[str, int], str]:
    """The census of a disassembly, and the hash of its encoded instructions."""
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
    elif base == "WARPGROUP":
        names += [name for name in (f"WARPGROUP.{modifiers[0]}",) if name in CENSUS]
    elif base.startswith("UCGABAR"):
        names.append("UCGABAR")
    elif base == "UTCHMMA":
        names.append(base)
    elif base in CENSUS:
        names += [name for name in (base, *(f"{base}.{word}" for word in modifiers)) if name in CENSUS]
    return names


def mma_class(census: Mapping[str, int]) -> str:
    """wgmma, mma_sync or fma: the instruction class that does the matrix products."""
    if census["HGMMA"]:
        return "wgmma"
    return "mma_sync" if census["HMMA"] else "fma"


def remarks(log: str) -> list[str]:
    """What ptxas says about wgmma in the log of a build, without the names of functions: that it serialized them and
    why, that it added a fence which the source lacks."""
    found = re.findall(r"wgmma\.mma_async instructions are (serialized due to .*?) (?:in|for) the function", log)
    found += re.findall(r"(warpgroup\.arrive is injected)", log)
    return list(dict.fromkeys(found))


def read(path: Path, *, smem_bytes: int, log: str = "") -> dict[str, Any]:
    """The `code` of a row. `smem_bytes` is the shared memory that the launch asks for; static memory is added. `log` is
    what the assembler said. `main_loop`, `setmaxnreg` and `remarks` are there where there is something to say. Raises
    DisassemblerError."""
    binary = disassemble(path)
    further = {"main_loop": binary.main_loop, "setmaxnreg": binary.setmaxnreg, "remarks": remarks(log)}
    return {
        "registers": binary.registers,
        "spill_bytes": binary.stack_bytes,
        "smem_bytes": smem_bytes + binary.static_smem_bytes,
        "census": binary.census,
        "sass_sha256": binary.sass_sha256,
        **{name: value for name, value in further.items() if value},
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
