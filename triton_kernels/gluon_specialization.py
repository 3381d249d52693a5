"""`specialize` for Gluon kernels, whose language has a front end of its own. They launch as Triton's do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
from triton.compiler import CompiledKernel
from triton.experimental.gluon._runtime import GluonASTSource

from triton_kernels import specialization


@dataclass(frozen=True)
class GluonSpecialization(specialization.Specialization):
    def compile(self) -> CompiledKernel:
        source = GluonASTSource(self.function, self.signature, self.constexprs, self.attrs)
        return triton.compile(source, target=self.target, options=vars(self.options))


def specialize(*args: Any, **kwargs: Any) -> GluonSpecialization:
    """What specialization.launch compiles: arguments and errors are those of specialization.specialize."""
    return GluonSpecialization(**vars(specialization.specialize(*args, **kwargs)))
