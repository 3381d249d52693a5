"""Limits of a multiprocessor, which kernels of their own measure: plain data, standard library only."""

from collections import Counter
from dataclasses import dataclass, field

from harness.catalog.sources import ROOT, closure, sha256_of

PEAK = 4096
"""Dense 16-bit FLOP of a multiprocessor of compute capability 9.0 in a clock (NVIDIA's whitepaper)."""
MATMUL = "matmul"
"""The roof that is no kernel of ours: cuBLAS by torch.matmul, of MATMUL_SIZE cubed in bf16."""
MATMUL_SIZE = 8192
WARP, WARPGROUP = 32, 128
WARPS = WARPGROUP // WARP
"""Of a warpgroup, one on each scheduler."""
THROUGHPUT = {
    **dict.fromkeys(("FADD", "FMUL", "FFMA"), ("fp32", 128)),
    "FMNMX": ("maxima", 64),
    "MUFU.EX2": ("special functions", 16),
}
"""SASS instruction -> its unit and how many lanes of it a multiprocessor of compute capability 9.0 does in a clock, of
all instructions of that unit together (CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions")."""


@dataclass(frozen=True)
class Roof:
    """One limit. `kernel` is a file's stem below cuda_kernels/`folder`, built with `constants`; the first
    `product_groups` warpgroups of each block multiply, `vector_groups` further ones do other work for as long.

    `flop` is what a multiplying warpgroup does in a step, `amount` what another one does, counted in `work`. `loops`
    are claims about the machine code: for each there is a loop with exactly so many of these instructions.
    """

    name: str
    kernel: str = ""
    size: int | None = None
    """What tells roofs of one kernel apart, where there are several."""
    product_groups: int = 0
    vector_groups: int = 0
    flop: int = 0
    work: str = ""
    amount: int = 0
    constants: dict[str, int] = field(default_factory=dict, hash=False)
    loops: tuple[dict[str, int], ...] = field(default=(), hash=False)
    folder: str = ""

    @property
    def defines(self) -> dict[str, int]:
        """The compile-time constants (roofs.cuh of the folder's operator)."""
        groups = {"PRODUCT_GROUPS": self.product_groups, "VECTOR_GROUPS": self.vector_groups}
        return {f"ROOF_{name}": value for name, value in {**groups, **self.constants}.items()}

    @property
    def source_sha256(self) -> str:
        """The hash of the kernel's file and what it includes. Raises FileNotFoundError for a roof without a kernel."""
        return sha256_of(closure(ROOT / "cuda_kernels" / self.folder / f"{self.kernel}.cu", ROOT))

    def most(self, what: str) -> float:
        """How much of `what`, "flop" or `work`, the hardware can do in a clock of one multiprocessor at most: the peak
        of the tensor cores, or what the busiest unit leaves by the instructions that `loops` claims first."""
        if what == "flop":
            return PEAK
        lanes: Counter[tuple[str, int]] = Counter()
        for instruction, count in self.loops[0].items():
            if instruction in THROUGHPUT:
                lanes[THROUGHPUT[instruction]] += count * WARPGROUP
        return self.amount / max(number / throughput for (_, throughput), number in lanes.items())
