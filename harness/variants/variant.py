"""What every loaded case offers, whatever its language."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.catalog import techniques
from harness.catalog.cases import Case, source_sha256
from harness.variants import machine_code

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = {"fp16": "float16", "bf16": "bfloat16"}
Call = Callable[[], tuple[Any, Any]]


class Variant:
    """A loaded case. `launch` writes into given tensors; `bind` fixes the arguments for timing."""

    label = ""
    """What a peer leaves out, such as "no LSE"."""

    device: str | None = None
    """Where its tensors lie: cpu, cuda, or None for either."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.problem = case.problem
        self.technique = techniques.get(case.technique) if case.technique else None
        self.source_sha256 = source_sha256(case)
        self.compile_s: float | None = None
        self.compiler: dict[str, Any] | None = None
        self.workspace_bytes = 0

    def launch(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> None:
        """Writes o and lse. Raises ValueError and TypeError for bad tensors, LaunchError for a CUDA error."""
        self.bind(q, k, v, o, lse, scale=scale, causal=causal)()

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        """A call without arguments that returns (o, lse); nothing is allocated in it by our own kernels."""
        raise NotImplementedError

    def schedule(self, seed: int) -> None:
        """Orders warps, lanes and blocks of the launches to come, where the CPU runs them; 0 is the plain order."""

    def code(self) -> dict[str, Any] | None:
        """The `code` of a row (variants.machine_code.read). None for peers."""
        return None

    def of_compilers(self) -> dict[str, Any]:
        """`code`, `mma`, `compiler` and `compile_s` of a row, each None where it does not apply or is not known."""
        code = self.code()  # which of some tells the rest
        mma = code and machine_code.mma_class(code["census"])
        return {"code": code, "mma": mma, "compiler": self.compiler, "compile_s": self.compile_s}

    def _check(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, scale: float, causal: bool) -> None:
        from harness.operators.attention.validate import validate

        capability = None
        if q.is_cuda:
            import torch

            capability = torch.cuda.get_device_capability(q.device)
        validate(q, k, v, o, lse, scale=scale, causal=causal, technique=self.technique, capability=capability)
        if q.device.type != (self.device or q.device.type) or q.device.type == "meta":
            expected_device = self.device or "cpu or cuda"
            raise ValueError(f"q.device: got {q.device}, expected {expected_device}, where {self.case} was loaded")
        p = self.problem
        if (dtype := str(q.dtype).removeprefix("torch.")) != DTYPES[p.dtype]:
            raise TypeError(f"q.dtype: got {dtype}, expected {DTYPES[p.dtype]} as compiled for; load that problem")
        got = (*q.shape, k.shape[1], k.shape[2], causal)
        expected = (p.batch, p.heads, p.seq_q, p.head_dim, p.heads_kv, p.seq_kv, p.causal)
        if got != expected:
            raise ValueError(f"problem: got tensors of {got}, expected {expected} as compiled for; load that problem")

    def _workspace(self, device: Any) -> Tensor | None:
        if not self.workspace_bytes:
            return None
        import torch

        return torch.zeros(self.workspace_bytes, dtype=torch.uint8, device=device)
