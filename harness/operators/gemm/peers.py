"""Matrix products as libraries have them, by the name of the peer."""

import importlib
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from harness.operators.errors import Unsupported
from harness.operators.gemm.libraries import LIBRARIES
from harness.operators.gemm.problem import Problem
from harness.operators.protocol import Peer, Scalars, Tensors

HEURISTICS = 64
"""Answers of cuBLASLt's heuristics that are timed for the best of them; nvmath-python asks for 8 by itself."""
LAUNCHES = 5
"""Of each answer, after one that is not timed."""
WORKSPACE = 2**30
"""Bytes that an answer may ask for."""
Bound = Callable[[], Any]


def peer(name: str, problem: Problem) -> Peer:
    """A library's product. Raises Unsupported, ImportError."""
    make = _MAKERS[name](problem)

    def bind(tensors: Tensors, scalars: Scalars) -> Callable[[], Mapping[str, Any]]:
        bound = make(tensors)
        return lambda: {"c": bound()}

    label = "GELU by a kernel of its own" if problem.epilogue == "gelu" and name == "cublas" else ""
    if problem.groups > 1 and name == "cublas":
        label = "a product for each group, of sizes that the host knows"
    return Peer(bind, label)


def _cublas(problem: Problem) -> Callable[[Tensors], Bound]:
    import torch

    if problem.groups > 1 and problem.out == "fp32":
        raise Unsupported("torch.mm is timed on groups in the dtype of their inputs")

    def make(tensors: Tensors) -> Bound:
        if problem.groups > 1:
            return _cublas_by_groups(tensors)
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


def _cublas_by_groups(tensors: Tensors) -> Bound:
    import torch

    a, c, ends = tensors["a"], tensors["c"], tensors["offsets"].tolist()
    rows = map(slice, [0, *ends], ends)
    products = [(a[own], b.T, c[own]) for own, b in zip(rows, tensors["b"], strict=True) if own.start < own.stop]

    def call() -> Any:
        for left, right, out in products:
            torch.mm(left, right, out=out)
        return c

    return call


def _torch_grouped(problem: Problem) -> Callable[[Tensors], Bound]:
    if problem.groups == 1 or problem.dtype != "bf16" or problem.out != "same":
        raise Unsupported("torch._grouped_mm is timed on groups in bf16: it has no kernel for other dtypes")
    multiply = importlib.import_module("torch")._grouped_mm
    return lambda tensors: lambda: multiply(tensors["a"], tensors["b"].mT, offs=tensors["offsets"])


def _cublaslt(problem: Problem) -> Callable[[Tensors], Bound]:
    """The heuristics are timed on the first tensors; later ones take the same answer."""
    _require_plain("cublaslt", problem)
    product = importlib.import_module(LIBRARIES["cublaslt"].module).Matmul
    best: list[Any] = []

    def make(tensors: Tensors) -> Bound:
        bound = product(tensors["a"], tensors["b"].T, options={"memory_limit": WORKSPACE})
        if not best:
            best.append(_fastest(bound, bound.plan(preferences={"limit": HEURISTICS})))
        else:
            bound.plan(algorithms=best)
        return lambda: bound.execute(algorithm=best[0])

    return make


def _fastest(product: Any, algorithms: Any) -> Any:
    """The algorithm with the lowest median of LAUNCHES, each with a cold L2 cache, in rounds of all algorithms."""
    import torch

    cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    flushed = torch.empty(2 * cache, dtype=torch.uint8, device="cuda")
    events: dict[Any, list[Any]] = {algorithm: [] for algorithm in algorithms}
    for _ in range(1 + LAUNCHES):
        for algorithm, timed in events.items():
            flushed.fill_(1)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            product.execute(algorithm=algorithm)
            end.record()
            timed.append((begin, end))
    torch.cuda.synchronize()

    def median(algorithm: Any) -> float:
        return statistics.median(begin.elapsed_time(end) for begin, end in events[algorithm][1:])

    return min(events, key=median)


def _inductor(problem: Problem) -> Callable[[Tensors], Bound]:
    import torch

    def multiply(a: Any, b: Any, bias: Any) -> Any:
        c = a @ b.T if bias is None else torch.addmm(bias, a, b.T)
        return torch.nn.functional.gelu(c, approximate="tanh") if problem.epilogue == "gelu" else c

    _require_one_product("inductor", problem)
    if problem.out == "fp32":
        raise Unsupported("Inductor's templates write the dtype of their inputs")
    torch._dynamo.reset()  # one problem per compilation: no shape is generalized over an earlier one
    options = {
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
        "triton.enable_persistent_tma_matmul": True,  # loads by TMA, which it does not try by itself
    }
    compiled = torch.compile(multiply, options=options, dynamic=False)
    return lambda tensors: lambda: compiled(tensors["a"], tensors["b"], tensors.get("bias"))


def _deep_gemm(problem: Problem) -> Callable[[Tensors], Bound]:
    if problem.groups > 1:
        raise Unsupported("DeepGEMM's groups begin at multiples of 128 rows; here they follow each other without gaps")
    _require_plain("deep_gemm", problem)
    if problem.dtype != "bf16":
        raise Unsupported("DeepGEMM multiplies bf16 and 8-bit floats; use bf16")
    _require_k_contiguous("DeepGEMM", problem)
    multiply = importlib.import_module(LIBRARIES["deep_gemm"].module).bf16_gemm_nt

    def make(tensors: Tensors) -> Bound:
        a, b, c = (tensors[name] for name in "abc")

        def call() -> Any:
            multiply(a, b, c)
            return c

        return call

    return make


def _quack(problem: Problem) -> Callable[[Tensors], Bound]:
    _require_plain("quack", problem)
    _require_k_contiguous("quack", problem)
    multiply = importlib.import_module(LIBRARIES["quack"].module).gemm
    return lambda tensors: lambda: multiply(tensors["a"], tensors["b"].T, out=tensors["c"])


def _require_one_product(name: str, problem: Problem) -> None:
    if problem.groups > 1:
        raise Unsupported(f"{name} is timed on one product, not on groups")


def _require_k_contiguous(name: str, problem: Problem) -> None:
    if problem.contiguous != "kk":
        raise Unsupported(f"{name} is timed on products with k contiguous in A and in B")


def _require_plain(name: str, problem: Problem) -> None:
    _require_one_product(name, problem)
    if problem.epilogue != "plain" or problem.out != "same":
        raise Unsupported(f"{name} is timed on plain products in the dtype of their inputs")


_MAKERS: dict[str, Callable[[Problem], Callable[[Tensors], Bound]]] = {
    "cublas": _cublas,
    "cublaslt": _cublaslt,
    "inductor": _inductor,
    "deep_gemm": _deep_gemm,
    "quack": _quack,
    "torch_grouped": _torch_grouped,
}
