"""Matrix products as libraries have them, by the name of the peer."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from harness.operators.errors import Unsupported
from harness.operators.gemm.libraries import LIBRARIES
from harness.operators.gemm.problem import Problem
from harness.operators.protocol import Peer, Scalars, Tensors

HEURISTICS = 64
"""Answers of cuBLASLt's heuristics that are timed for the best of them; nvmath-python asks for 8 by itself."""
Bound = Callable[[], Any]


def peer(name: str, problem: Problem) -> Peer:
    """A library's product. Raises Unsupported, ImportError."""
    start = time.perf_counter()
    make = _MAKERS[name](problem)

    def bind(tensors: Tensors, scalars: Scalars) -> Callable[[], dict[str, Any]]:
        bound = make(tensors)
        return lambda: {"c": bound()}

    label = "GELU by a kernel of its own" if problem.epilogue == "gelu" and name == "cublas" else ""
    return Peer(bind, label, compile_s=time.perf_counter() - start if name == "inductor" else None)


def _cublas(problem: Problem) -> Callable[[Tensors], Bound]:
    import torch

    def make(tensors: Tensors) -> Bound:
        a, b, bias, c = tensors["a"], tensors["b"].T, tensors.get("bias"), tensors["c"]
        if problem.out == "fp32":
            if bias is not None:
                raise Unsupported("torch.addmm writes the dtype of its inputs; use a plain epilogue for fp32 output")
            return lambda: torch.mm(a, b, out_dtype=torch.float32)
        if bias is None:
            return lambda: torch.mm(a, b, out=c)
        if problem.epilogue == "bias":
            return lambda: torch.addmm(bias, a, b, out=c)
        return lambda: torch.nn.functional.gelu(torch.addmm(bias, a, b, out=c), approximate="tanh")

    return make


def _cublaslt(problem: Problem) -> Callable[[Tensors], Bound]:
    if problem.epilogue != "plain" or problem.out != "same":
        raise Unsupported("cublaslt is timed on plain products in the dtype of their inputs")
    advanced = importlib.import_module(LIBRARIES["cublaslt"].module)

    def make(tensors: Tensors) -> Bound:
        product = advanced.Matmul(tensors["a"], tensors["b"].T)
        product.plan(preferences={"limit": HEURISTICS})
        product.autotune(iterations=5)
        return product.execute

    return make


def _inductor(problem: Problem) -> Callable[[Tensors], Bound]:
    import torch
    from torch._inductor import config

    def multiply(a: Any, b: Any, bias: Any) -> Any:
        c = a @ b.T if bias is None else torch.addmm(bias, a, b.T)
        return torch.nn.functional.gelu(c, approximate="tanh") if problem.epilogue == "gelu" else c

    if problem.out == "fp32":
        raise Unsupported("Inductor's templates write the dtype of their inputs")
    torch._dynamo.reset()  # one problem per compilation: no shape is generalized over an earlier one
    compiled = torch.compile(multiply, mode="max-autotune-no-cudagraphs", dynamic=False)

    def make(tensors: Tensors) -> Bound:
        def call() -> Any:
            with config.patch(max_autotune_gemm_backends="TRITON"):
                return compiled(tensors["a"], tensors["b"], tensors.get("bias"))

        call()
        return lambda: compiled(tensors["a"], tensors["b"], tensors.get("bias"))

    return make


_MAKERS: dict[str, Callable[[Problem], Callable[[Tensors], Bound]]] = {
    "cublas": _cublas,
    "cublaslt": _cublaslt,
    "inductor": _inductor,
}
