"""Kernels that do what a kernel should not, behind the functions of harness.build; the technique is the fault.

Kernels import torch themselves: a command that only names this loader starts in half the time.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from typing import TYPE_CHECKING, Any

from harness.build import Case, CompileError, DataRace, LaunchError, Unsupported

if TYPE_CHECKING:
    import torch

Call = Any
launches = 0


def attend(q, k, v, o, lse, *, scale, causal):
    """The right answer, rounded once; so slow that a busy machine does not make it several times slower."""
    from harness.operators.attention import reference

    time.sleep(0.01)
    truth, truth_lse = reference.truth(q, k, v, scale=scale, causal=causal)
    o.copy_(truth)
    lse.copy_(truth_lse)


def zeros(q, k, v, o, lse, *, scale, causal):
    time.sleep(0.01)
    o.zero_()
    lse.zero_()


def paced(milliseconds: float) -> Call:
    """A right answer that takes this long."""

    def launch(q, k, v, o, lse, *, scale, causal):
        attend(q, k, v, o, lse, scale=scale, causal=causal)
        time.sleep(milliseconds / 1e3)

    return launch


def stale(q, k, v, o, lse, *, scale, causal, kept: list[torch.Tensor] = []):  # noqa: B006
    if not kept:
        attend(q, k, v, o, lse, scale=scale, causal=causal)
        kept += [o.clone(), lse.clone()]
    o.copy_(kept[0])
    lse.copy_(kept[1])


def clobbers_input(q, k, v, o, lse, *, scale, causal):
    attend(q, k, v, o, lse, scale=scale, causal=causal)
    k.zero_()


def writes_past_end(q, k, v, o, lse, *, scale, causal):
    attend(q, k, v, o, lse, scale=scale, causal=causal)
    lse.as_strided((lse.numel() + 1,), (1,))[-1] = 0.0


def not_repeatable(q, k, v, o, lse, *, scale, causal):
    global launches
    launches += 1
    attend(q, k, v, o, lse, scale=scale, causal=causal)
    if launches % 3 == 0:
        o[0, 0, 0, 0] = o[0, 0, 0, 0] * 1.001 + 1e-3


def sleeps(q, k, v, o, lse, *, scale, causal):
    print("asleep", flush=True)
    time.sleep(3600)


def segfaults(q, k, v, o, lse, *, scale, causal):
    ctypes.string_at(0)


def raises(error: Exception) -> Call:
    def launch(**_: Any) -> None:
        raise error

    return launch


def exhausts_memory(**_: Any) -> None:
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1000.00 GiB")


launch_refused = raises(LaunchError("too many resources requested for launch", 701))
races = raises(DataRace(["race: k_smem (shared address 0x10) is read, and written by warp 1"], 0))
illegal_access = raises(LaunchError("an illegal memory access was encountered", 700))


def waits(q, k, v, o, lse, *, scale, causal):
    """Until the file that FAKE_GO names is there."""
    print("asleep", flush=True)
    while not os.path.exists(os.environ["FAKE_GO"]):
        time.sleep(0.01)
    attend(q, k, v, o, lse, scale=scale, causal=causal)


def asserts_on_device(q, k, v, o, lse, *, scale, causal):
    import torch

    lse.view(-1)[torch.tensor([lse.numel()], device=q.device)]


def hangs_on_device(q, k, v, o, lse, *, scale, causal):
    import torch

    torch.cuda._sleep(2**62)


class FakeVariant:
    """Has a `fault` once it has been timed four times."""

    label = ""

    def __init__(self, kernel: Call, mma: str = "fma", fault: Call = None) -> None:
        self.kernel, self.mma, self.fault = kernel, mma, fault

    def of_compilers(self) -> dict[str, Any]:
        code = {"registers": 32, "spill_bytes": 0, "smem_bytes": 0, "census": {}, "sass_sha256": "0" * 64}
        return {"code": code, "mma": self.mma, "compiler": None, "compile_s": 0.5}

    def launch(self, tensors, scalars):
        self.kernel(**tensors, **scalars)

    def bind(self, tensors, scalars):
        calls = itertools.count()

        def call():
            kernel = self.fault if self.fault and next(calls) >= 4 else self.kernel
            kernel(**tensors, **scalars)
            return {name: tensors[name] for name in ("o", "lse")}

        return call


def load(case: Case, on: str) -> FakeVariant:
    name = case.technique
    if name is None or name.startswith("right"):
        return FakeVariant(attend)
    if name == "import_fails":
        import a_module_that_does_not_exist  # noqa: F401
    if name == "load_hangs":
        print("still compiling", flush=True)
        time.sleep(3600)
    if name == "does_not_compile":
        raise CompileError(f"{case}: /some/where/kernel.cu(12): error: expected a ';'")
    if name == "declines":
        raise Unsupported("head_dim must be prime")
    if name == "other_instruction":
        return FakeVariant(attend, mma="wgmma")
    if name == "needs_variable":
        assert os.environ["FAKE_VARIABLE"] == "1"
        return FakeVariant(attend)
    if name == "paced":
        wrong = str(case.tile.block_n) in os.environ.get("FAKE_WRONG", "").split(",")
        return FakeVariant(zeros if wrong else paced(case.tile.block_n))
    if name.startswith("timed_"):
        return FakeVariant(attend, fault=globals()[name.removeprefix("timed_")])
    return FakeVariant(globals()[name])


def prebuild(cases: list[Case], progress: Call, *, seconds: float, stop: Call) -> None:
    progress(0, len(cases), "nothing to build")


def environment_of(case: Case, on: str = "gpu") -> dict[str, str] | None:
    return None if case.technique is None else {"FAKE_VARIABLE": "1"} if case.technique == "needs_variable" else {}


def source_sha256(case: Case) -> str | None:
    return case.technique and f"hash of {case.technique}"


def same_program(case: Case) -> str | None:
    return {"right_again": "right", "paced_again": "paced", "paced_once_more": "paced_again"}.get(case.technique or "")


def available(backend: str, on: str = "gpu") -> str | None:
    return "not installed" if backend == "fa3" else None


def multiply(batches: float) -> None:
    """In place of measure.sharing.multiply: leaves a file named after its process."""
    open(str(os.getpid()), "w").close()
    time.sleep(99 if batches > 1 else 0)


def multiply_without_a_gpu(batches: float) -> None:
    raise RuntimeError("no GPU")
