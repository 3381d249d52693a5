"""Triton and Gluon kernels: on the GPU here, in Triton's interpreter, or compiled for a GPU that is not here."""

import importlib
import os
from pathlib import Path
from typing import Any

from harness import operators
from harness.build import machine_code
from harness.build.variant import Call, Variant
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.operators.errors import Unsupported
from harness.operators.protocol import Scalars, Tensors

MMA_SYNC_ONLY = {"DISABLE_MMA_V3": "1"}
"""On Hopper core Triton turns large dots into wgmma; with this set before it is imported, into mma.sync."""


def environment_of(case: Case, on: str = "gpu") -> dict[str, str] | None:
    """Variables that a process needs before it loads this case; None when any process will do."""
    if case.kernel:
        triton = {"TRITON_INTERPRET": "1"} if on == "cpu" else {}
        return triton if case.kernel.function else None
    if on == "cpu":
        return {"TRITON_INTERPRET": "1"} if case.backend.startswith("triton") else None
    if case.technique is None:
        return {} if case.backend in operators.by_triton() else None
    if case.backend.partition("@")[0] == "triton_native":
        return {}
    return dict(MMA_SYNC_ONLY) if techniques.at(case.technique, case.problem).mma != "wgmma" else {}


def require_environment(case: Case, on: str = "gpu") -> None:
    """Raises RuntimeError in a process that was started without the variables of a Triton twin: Triton read them."""
    wanted = environment_of(case, on) or {}
    for name in (*MMA_SYNC_ONLY, "TRITON_INTERPRET"):
        if os.environ.get(name) != wanted.get(name):
            raise RuntimeError(
                f"{name}: got {os.environ.get(name)!r}, expected {wanted.get(name)!r} for {case}; "
                "start the process with build.environment_of(case)"
            )


class TritonVariant(Variant):
    """A Triton twin, launched by its own `launch`. Each backend gets a module of its own: Triton caches compiled
    kernels per function, and does not see that DISABLE_MMA_V3 differs."""

    def __init__(self, case: Case, on: str) -> None:
        super().__init__(case)
        self.on = on
        require_environment(case, on)
        if on == "cpu" and case.problem.dtype == "bf16":
            raise Unsupported("Triton's interpreter multiplies bf16 wrongly without an error; use fp16")
        self.twin = twin_of(case)
        self.workspace_bytes = self.twin.workspace_bytes(case.problem)
        self.compiled: Any = None

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        workspace = self._workspace(self._check(tensors, scalars))
        launch, tile = self.twin.launch, self.case.tile
        assert tile is not None
        outputs = self.outputs(tensors)
        if self.on == "gpu" and self.compiled is None:
            from triton import knobs

            knobs.compilation.listener = note_compile_time

        def call() -> Tensors:
            self.compiled = launch(**tensors, **scalars, tile=tile, workspace=workspace)
            return outputs

        return call

    def code(self) -> dict[str, Any] | None:
        if self.compiled is None:
            return None
        self.compiler = machine_code.triton_compiler(self.compiled)
        self.compile_s = compile_seconds(self.compiled)
        return machine_code.read_triton(self.compiled)


def compile_triton(case: Case, arch: str) -> Any:
    """The Triton twin of a case compiled for an architecture that need not be here: a triton.compiler.CompiledKernel,
    which Triton's cache keeps and the launcher finds there."""
    from triton import knobs

    knobs.compilation.listener = note_compile_time
    return specialized(case, arch).compile()


def specialized(case: Case, arch: str) -> Any:
    """The Specialization of a case (triton_kernels/<operator>/specialization.py): what would be compiled."""
    return twin_of(case).specialize(case.problem, None, case.tile, arch)


def twin_of(case: Case) -> Any:
    """What `specialize`s, `launch`es and says `workspace_bytes` of the case: the `twin` of its kernel file, or the file
    where it has these three itself. Raises what importing raises."""
    assert case.technique is not None
    technique = techniques.at(case.technique, case.problem)
    root = operators.root(technique.operator)
    path = sources.kernel_file(case.backend, technique.path).relative_to(root).with_suffix("")
    package = () if root == operators.ROOT else ("harness", "operators", technique.operator)
    module = importlib.import_module(".".join((*package, *path.parts)))
    return getattr(module, "twin", module)


def note_compile_time(*, metadata_group: dict[str, str], times: Any, cache_hit: bool, **_: Any) -> None:
    """Triton calls this when it has compiled a kernel or found it in its cache. What compiling took is kept there."""
    if not cache_hit:
        _note(metadata_group).write_text(str(times.total / 1e6))


def compile_seconds(compiled: Any) -> float | None:
    """Seconds that Triton needed for a triton.compiler.CompiledKernel, in whichever process. None when it was compiled
    without `note_compile_time`."""
    note = _note(compiled.metadata_group)
    return float(note.read_text()) if note.is_file() else None


def _note(metadata_group: dict[str, str]) -> Path:
    return Path(next(iter(metadata_group.values()))).parent / "compile_s"
