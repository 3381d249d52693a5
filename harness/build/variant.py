"""What every loaded case offers, whatever its language; and library peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from harness import operators
from harness.build import machine_code
from harness.catalog import techniques
from harness.catalog.cases import Case, source_sha256
from harness.operators.protocol import Scalars, Tensors

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Call = Callable[[], Mapping[str, Any]]
"""Returns outputs by name."""


class Variant:
    """A loaded case. `launch` writes into given tensors; `bind` fixes the arguments for timing."""

    label = ""
    """What a peer leaves out, such as "no LSE"."""

    device: str | None = None
    """Where its tensors lie: cpu, cuda, or None for either."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.problem = case.problem
        self.operator = operators.of(case.problem)
        self.technique = techniques.at(case.technique, case.problem) if case.technique else None
        self.source_sha256 = source_sha256(case)
        self.compile_s: float | None = None
        self.compiler: dict[str, Any] | None = None
        self.scratch_bytes = self.operator.scratch_bytes(case.problem)
        self.workspace_bytes = 0
        """Of the part that is zero before a launch, behind the scratch memory."""

    def launch(self, tensors: Tensors, scalars: Scalars) -> None:
        """Writes the outputs among `tensors`. Raises ValueError and TypeError for bad tensors, LaunchError for a CUDA
        error."""
        self.bind(tensors, scalars)()

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        """A call without arguments that returns the outputs by name; nothing is allocated in it by our own kernels."""
        raise NotImplementedError

    def schedule(self, seed: int) -> None:
        """Orders warps, lanes and blocks of the launches to come, where the CPU runs them; 0 is the plain order."""

    def code(self) -> dict[str, Any] | None:
        """The `code` of a row (build.machine_code.read). None for peers."""
        return None

    def of_compilers(self) -> dict[str, Any]:
        """`code`, `mma`, `compiler` and `compile_s` of a row, each None where it does not apply or is not known."""
        code = self.code()  # which of some tells the rest
        mma = code and machine_code.mma_class(code["census"])
        return {"code": code, "mma": mma, "compiler": self.compiler, "compile_s": self.compile_s}

    def outputs(self, tensors: Tensors) -> dict[str, Tensor]:
        return {name: tensors[name] for name in self.operator.output_specs(self.problem)}

    def _check(self, tensors: Tensors, scalars: Scalars) -> torch.device:
        """The device of the tensors. Raises TypeError and ValueError for what this variant does not take."""
        import torch

        first = next(iter(tensors))
        device = getattr(tensors[first], "device", torch.device("cpu"))
        capability = torch.cuda.get_device_capability(device) if getattr(tensors[first], "is_cuda", False) else None
        self.operator.validate(self.problem, tensors, scalars)
        techniques.check_capability(self.technique, capability)
        if device.type != (self.device or device.type) or device.type == "meta":
            expected_device = self.device or "cpu or cuda"
            raise ValueError(f"{first}.device: got {device}, expected {expected_device}, where {self.case} was loaded")
        return device

    def _workspace(self, device: Any) -> Tensor | None:
        """Scratch memory, full of NaN whatever the dtype, and zeros."""
        if not (size := self.scratch_bytes + self.workspace_bytes):
            return None
        import torch

        workspace = torch.zeros(size, dtype=torch.uint8, device=device)
        workspace[: self.scratch_bytes] = 0xFF
        return workspace


class PeerVariant(Variant):
    """What the operator's `peer` loads. `launch` copies outputs that lie elsewhere; `bind` does not."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        assert self.operator.peer is not None
        self.peer = self.operator.peer(case.backend, case.problem)
        self.label, self.compiler = self.peer.label, self.peer.compiler

    def launch(self, tensors: Tensors, scalars: Scalars) -> None:
        start = time.perf_counter()
        outputs = self.bind(tensors, scalars)()
        if self.case.backend in self.operator.compiling_peers and self.compile_s is None:
            self.compile_s = time.perf_counter() - start
        for name, out in outputs.items():
            if out is not None and out is not tensors[name]:
                tensors[name].copy_(out.reshape(tensors[name].shape))

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        self._check(tensors, scalars)
        return self.peer.bind(tensors, scalars)
