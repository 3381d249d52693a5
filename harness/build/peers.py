"""Library peers: an operator as others wrote it, by its backend's name."""

from __future__ import annotations

from harness.build.variant import Call, Variant
from harness.catalog.cases import Case
from harness.operators.protocol import Scalars, Tensors


class PeerVariant(Variant):
    """What the operator's `peer` loads. `launch` copies outputs that lie elsewhere; `bind` does not."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        assert self.operator.peer is not None
        self.peer = self.operator.peer(case.backend, case.problem)
        self.label, self.compiler, self.compile_s = self.peer.label, self.peer.compiler, self.peer.compile_s

    def launch(self, tensors: Tensors, scalars: Scalars) -> None:
        for name, out in self.bind(tensors, scalars)().items():
            if out is not None and out is not tensors[name]:
                tensors[name].copy_(out.reshape(tensors[name].shape))

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        self._check(tensors, scalars)
        return self.peer.bind(tensors, scalars)
