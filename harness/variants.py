"""(technique, backend, problem, tile) -> a callable. The only importer of the kernel packages, lazily and by name.

A twin is found by its path: cuda_kernels/<ladder>/<name>.cu, triton_kernels/<ladder>/<name>.py. Library peers are
backends without a technique. Bad tensors are refused by `validate` before either language sees them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import sources, techniques
from harness.problem import Problem, Tile

if TYPE_CHECKING:
    from torch import Tensor

Call = Callable[[], tuple[Any, Any]]
PEERS = ("sdpa_flash", "sdpa_cudnn", "sdpa_math", "flex", "fa2", "fa3", "fa4")
MMA_SYNC_ONLY = {"DISABLE_MMA_V3": "1"}
"""On Hopper core Triton turns large dots into wgmma; with this set before it is imported, into mma.sync."""


class Unsupported(Exception):
    """A backend declines a cell; the message is the reason."""


class LaunchError(RuntimeError):
    """A launcher returned a CUDA error."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Diagnosed(LaunchError):
    """The CPU runtime found a bug; `lines` name it, with the kernel's line, thread, barrier: `deadlock: nobody ...`."""

    def __init__(self, lines: list[str], code: int) -> None:
        super().__init__("\n".join(lines), code)
        self.lines = lines


class CompileError(RuntimeError):
    """A kernel does not compile; the message names the technique and holds the compiler's words."""


@dataclass(frozen=True)
class Case:
    """What one measurement is of. `technique` and `tile` are None for library peers."""

    experiment: str
    technique: str | None
    backend: str
    problem: Problem
    tile: Tile | None

    def __str__(self) -> str:
        parts = (self.technique, self.backend, self.problem.slug, self.tile and self.tile.slug)
        return " ".join(part for part in parts if part)


def environment_of(case: Case, on: str = "gpu") -> dict[str, str] | None:
    """Variables that a process needs before it loads this case; None when any process will do."""
    if on == "cpu":
        return {"TRITON_INTERPRET": "1"} if case.backend.startswith("triton") else None
    if case.technique is None:
        return {} if case.backend == "flex" else None
    if case.backend == "triton_native":
        return {}
    return dict(MMA_SYNC_ONLY) if techniques.get(case.technique).mma != "wgmma" else {}


def sanitizer_environment() -> dict[str, str]:
    """Variables of a process in which the CPU runs CUDA twins under the address and undefined-behaviour sanitizers.

    Raises Unsupported where the compiler has none.
    """
    from cuda_kernels import build, cpu_build

    try:
        return cpu_build.sanitizer_environment()
    except build.ToolchainError as error:
        raise Unsupported(str(error)) from None


def source_sha256(case: Case) -> str | None:
    """Hash of the kernel's files; None for peers."""
    return case.technique and sources.source_sha256(case.backend, techniques.get(case.technique).path)


def same_program(case: Case) -> str | None:
    """The technique whose program this twin is again, or None."""
    return case.technique and sources.same_program(techniques.get(case.technique).path, case.backend)


def available(backend: str, on: str = "gpu") -> str | None:
    """Why a backend cannot run here and what to do about it; None when it can."""
    import torch

    if on == "gpu" and not torch.cuda.is_available():
        return "no CUDA GPU here: run on a machine with one, or use --on cpu"
    if on == "cpu" and backend in PEERS:
        return "library peers are timed on a GPU only"
    modules = {"fa2": "flash_attn.flash_attn_interface", "fa3": "flash_attn_interface", "fa4": "flash_attn.cute"}
    if backend.startswith("triton") or backend == "flex":
        modules[backend] = "triton"
    try:
        found = backend not in modules or importlib.util.find_spec(modules[backend])
    except ModuleNotFoundError:
        found = None
    if not found:
        package = {"fa2": "flash-attn", "fa3": "flash-attn's hopper/ build", "fa4": "flash-attn-4"}
        return f"{modules[backend]} is not installed: install {package.get(backend, 'triton')}"
    if backend == "cuda":
        from cuda_kernels import build, cpu_build

        try:
            build.toolchain() if on == "gpu" else (cpu_build.compiler(), cpu_build.cuda_include())
        except build.ToolchainError as error:
            return str(error)
    return None


def gpu_arch() -> str:
    """The architecture that kernels are compiled for on this GPU: sm_80 code runs on 8.x, the others on their own."""
    import torch

    major, _ = torch.cuda.get_device_capability()
    return {8: "sm_80", 9: "sm_90a", 12: "sm_120a"}.get(major, f"sm_{major}0a")


def load(case: Case, on: str = "gpu") -> Variant:
    """Compiles what must be compiled and returns the variant.

    Raises Unsupported, CompileError, ImportError.
    """
    if reason := available(case.backend, on):
        raise Unsupported(reason)
    if case.technique is None:
        return PeerVariant(case)
    technique = techniques.get(case.technique)
    assert case.tile is not None, f"{case}: a technique needs a tile"
    if reason := techniques.unsupported(technique, case.backend, case.problem, case.tile):
        raise Unsupported(reason)
    if on == "gpu":
        arch = gpu_arch()
        ladder = techniques.LADDERS[technique.ladder]
        if arch not in ladder.archs:
            raise Unsupported(f"the {ladder.name} ladder is built for {', '.join(ladder.archs)}; this GPU is {arch}")
    if case.backend == "cuda":
        return CudaVariant(case) if on == "gpu" else CpuCudaVariant(case)
    if case.backend in ("triton", "triton_native"):
        return TritonVariant(case, on)
    raise Unsupported(f"backend: got {case.backend!r}, expected one of {', '.join((*techniques.TWINS, *PEERS))}")


class Variant:
    """A loaded case. `launch` writes into given tensors; `bind` fixes the arguments for timing."""

    label = ""
    """What a peer leaves out, such as "no LSE"."""

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
        """The loaded binary: registers, spill_bytes, smem_bytes, census, sass_sha256. None for peers."""
        return None

    def _check(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, scale: float, causal: bool) -> None:
        from harness.validate import validate

        capability = None
        if q.is_cuda:
            import torch

            capability = torch.cuda.get_device_capability(q.device)
        validate(q, k, v, o, lse, scale=scale, causal=causal, technique=self.technique, capability=capability)
        p = self.problem
        got = (*q.shape, k.shape[1], k.shape[2], causal)
        expected = (p.batch, p.heads, p.seq_q, p.head_dim, p.heads_kv, p.seq_kv, p.causal)
        if got != expected:
            raise ValueError(f"problem: got tensors of {got}, expected {expected} as compiled for; load that problem")

    def _fits(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor) -> bool:
        """Whether the library was built for the row strides of these tensors."""
        assert self.technique is not None
        if not self.technique.constant_strides:
            return True
        q_rows, kv_rows = row_strides(self.problem)
        expected = (q_rows, kv_rows, kv_rows, q_rows)
        return all(t.shape[2] == 1 or t.stride(2) == rows for t, rows in zip((q, k, v, o), expected, strict=True))

    def _workspace(self, device: Any) -> Tensor | None:
        if not self.workspace_bytes:
            return None
        import torch

        return torch.zeros(self.workspace_bytes, dtype=torch.uint8, device=device)


class _Strides(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "seq")]


class AttentionArgs(ctypes.Structure):
    """cuda_kernels/attention.cuh, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse", "workspace")),
        *((f"{name}_stride", _Strides) for name in "qkvo"),
        *((name, ctypes.c_int32) for name in ("batch", "heads", "heads_kv", "seq_q", "seq_kv")),
        ("scale", ctypes.c_float),
    ]


def _strides(tensor: Tensor) -> _Strides:
    """Strides in elements; a dimension of size 1 gets 0, so that storage orders do not differ by it."""
    dims = zip(tensor.shape[:3], tensor.stride()[:3], strict=True)
    return _Strides(*(step if size > 1 else 0 for size, step in dims))


def _attention_args(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, workspace: Tensor | None, scale: float
) -> AttentionArgs:
    return AttentionArgs(
        *(tensor.data_ptr() for tensor in (q, k, v, o, lse)),
        workspace.data_ptr() if workspace is not None else None,
        *(_strides(tensor) for tensor in (q, k, v, o)),
        *(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2]),
        scale,
    )


def cuda_defines(problem: Problem, tile: Tile) -> dict[str, int]:
    """The compile-time constants of a CUDA kernel (attention.cuh)."""
    return {
        f"ATTENTION_{problem.dtype.upper()}": 1,
        "ATTENTION_HEAD_DIM": problem.head_dim,
        "ATTENTION_CAUSAL": int(problem.causal),
        "ATTENTION_BLOCK_M": tile.block_m,
        "ATTENTION_BLOCK_N": tile.block_n,
        "ATTENTION_STAGES": tile.stages,
        "ATTENTION_WARPS": tile.warps,
        **{f"ATTENTION_{name.upper()}": value for name, value in tile.extra},
    }


def row_strides(problem: Problem) -> tuple[int, int]:
    """Elements between rows of q and o, and of k and v, when the tensors are packed."""
    rows = (problem.heads, problem.heads_kv) if problem.layout == "bshd" else (1, 1)
    return rows[0] * problem.head_dim, rows[1] * problem.head_dim


def constants(case: Case, *, packed: bool = True) -> dict[str, int]:
    """The compile-time constants of this case's CUDA kernel. `packed`: row strides are those of packed tensors."""
    assert case.technique is not None
    assert case.tile is not None
    defines = cuda_defines(case.problem, case.tile)
    if packed and techniques.get(case.technique).constant_strides:
        names = ("ATTENTION_Q_ROW_STRIDE", "ATTENTION_KV_ROW_STRIDE")
        defines |= zip(names, row_strides(case.problem), strict=True)
    return defines


def build_cuda(case: Case, arch: str, *, inline: bool | None = None, packed: bool = True) -> Any:
    """`cuda_kernels.build.Built` for this case. Raises CompileError."""
    from cuda_kernels import build

    assert case.technique is not None
    path = techniques.get(case.technique).path
    try:
        return build.build(path, constants(case, packed=packed), arch, inline=inline)
    except build.CompileError as error:
        raise CompileError(f"{case}: {error}") from None


def cuda_compiler(built: Any) -> dict[str, Any]:
    """The row's `compiler` of a `cuda_kernels.build.Built`."""
    from cuda_kernels.build import toolchain

    return {"front_end": f"nvcc {toolchain().nvcc}", "ptxas": toolchain().ptxas, "flags": " ".join(built.flags)}


class CudaVariant(Variant):
    """A .cu file behind `extern "C" int launch(const AttentionArgs*, void* stream)`, built for the GPU here."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.arch = gpu_arch()
        built = build_cuda(case, self.arch)
        self.library = built.library
        self.compile_s = built.seconds
        self.compiler = cuda_compiler(built)
        handle = ctypes.CDLL(str(built.library))
        self.shared_memory_bytes = handle.shared_memory_bytes()
        allowed = techniques.SHARED_MEMORY[self.arch]
        if self.shared_memory_bytes > allowed:
            raise Unsupported(
                f"the tile needs {self.shared_memory_bytes} bytes of shared memory, {self.arch} has {allowed}"
            )
        self._launch = _entry(handle)

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        import torch

        self._check(q, k, v, o, lse, scale, causal)
        workspace = self._workspace(q.device)
        args = _attention_args(q, k, v, o, lse, workspace, scale)
        launch = self._launch
        if not self._fits(q, k, v, o):
            launch = _entry(ctypes.CDLL(str(build_cuda(self.case, self.arch, packed=False).library)))
        pointer, device = ctypes.byref(args), q.device.index
        current_stream = torch._C._cuda_getCurrentRawStream

        def call(keep_alive: tuple[Any, ...] = (args, workspace, q, k, v)) -> tuple[Tensor, Tensor]:
            if code := launch(pointer, current_stream(device)):
                raise LaunchError(f"{self.case}: {torch.cuda.CudaError(code)}", code)
            return o, lse

        return call

    def code(self) -> dict[str, Any]:
        from harness import machine_code

        return machine_code.read(self.library, smem_bytes=self.shared_memory_bytes)


def _entry(handle: ctypes.CDLL) -> Any:
    handle.launch.argtypes = [ctypes.POINTER(AttentionArgs), ctypes.c_void_p]
    return handle.launch


class CpuCudaVariant(Variant):
    """The same .cu file, run thread by thread on the CPU; waits, races and unwritten outputs are diagnosed by name."""

    def __init__(self, case: Case) -> None:
        from cuda_kernels import build, cpu_build

        super().__init__(case)
        start = time.perf_counter()
        try:
            self.library = self._build(packed=True)
        except build.ToolchainError as error:
            raise Unsupported(str(error)) from None
        except build.CompileError as error:
            raise CompileError(f"{case}: {error}") from None
        self.compile_s = time.perf_counter() - start
        flags = cpu_build.flags(sanitize=cpu_build.sanitizing())
        self.compiler = {"front_end": cpu_build.compiler(), "flags": " ".join(flags)}
        self.shared_memory_bytes = self.library.shared_memory_bytes
        self._options: dict[str, Any] = {"seed": 0}

    def _build(self, *, packed: bool) -> Any:
        from cuda_kernels import cpu_build, cpu_library

        path = cpu_build.HERE / f"{techniques.get(self.case.technique or '').path}.cu"
        defines, sanitize = constants(self.case, packed=packed), cpu_build.sanitizing()
        return cpu_library.Library(cpu_build.build(path, defines, sanitize=sanitize))

    def schedule(self, seed: int) -> None:
        self._options = {"seed": seed}

    def counters(self, inputs: Any, outputs: Any) -> dict[str, Any]:
        """The `details` of a row of kind `counters`, from one launch on packed tensors: `sites` as
        cpu_library.Library.counters returns them, their `totals`, and what `ncu` should count."""
        from cuda_kernels import cpu_library

        self._options = {"counters": True, "os_threads": 1}  # in one order, so that the examples are repeatable
        q, k, v, o, lse = inputs.q, inputs.k, inputs.v, outputs.o, outputs.lse
        self.launch(q, k, v, o, lse, scale=self.problem.scale, causal=self.problem.causal)
        sites = self.library.counters()
        return {"sites": sites, "totals": cpu_library.totals(sites), "ncu": cpu_library.ncu_metrics(sites)}

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        self._check(q, k, v, o, lse, scale, causal)
        workspace = self._workspace(q.device)
        args = _attention_args(q, k, v, o, lse, workspace, scale)
        library = self.library if self._fits(q, k, v, o) else self._build(packed=False)

        def call() -> tuple[Tensor, Tensor]:
            library.configure(**self._options)
            library.forget()
            for name, tensor in {"q": q, "k": k, "v": v, "o": o, "lse": lse}.items():
                pointer, shape, strides = tensor.data_ptr(), tensor.shape, tensor.stride()
                written = name in ("o", "lse")
                library.watch(name, pointer, tensor.element_size(), shape, strides, written=written)
            if code := library.launch(ctypes.byref(args), None):
                order = [f"scheduler seed {self._options['seed']}"] if self._options.get("seed") else []
                raise Diagnosed(library.diagnosis().splitlines() + order, code)
            return o, lse

        return call


class TritonVariant(Variant):
    """A Triton twin, launched by its own `launch`. Each backend gets a module of its own: Triton caches compiled
    kernels per function, and does not see that DISABLE_MMA_V3 differs."""

    def __init__(self, case: Case, on: str) -> None:
        super().__init__(case)
        assert self.technique is not None
        self.on = on
        wanted = environment_of(case, on) or {}
        for name in (*MMA_SYNC_ONLY, "TRITON_INTERPRET"):
            if os.environ.get(name) != wanted.get(name):
                raise RuntimeError(
                    f"{name}: got {os.environ.get(name)!r}, expected {wanted.get(name)!r} for {case}; "
                    "start the process with variants.environment_of(case)"
                )
        if on == "cpu" and case.problem.dtype != "fp16":
            raise Unsupported("Triton's interpreter multiplies bf16 wrongly without an error; use fp16")
        self.module = importlib.import_module(f"triton_kernels.{self.technique.path.replace('/', '.')}")
        self.workspace_bytes = self.module.workspace_bytes(case.problem)
        self.compiled: Any = None

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        self._check(q, k, v, o, lse, scale, causal)
        workspace = self._workspace(q.device)
        launch, tile = self.module.launch, self.case.tile
        if self.on == "gpu" and self.compiled is None:
            from triton import knobs

            knobs.compilation.listener = self._compiled

        def call() -> tuple[Tensor, Tensor]:
            self.compiled = launch(q, k, v, o, lse, scale=scale, causal=causal, tile=tile, workspace=workspace)
            return o, lse

        return call

    def _compiled(self, **heard: Any) -> None:
        """Triton calls this when it has compiled a kernel or found it in its cache."""
        self.compile_s = note_compile_time(**heard)

    def code(self) -> dict[str, Any] | None:
        from harness import machine_code

        if self.compiled is None:
            return None
        self.compiler = machine_code.triton_compiler(self.compiled)
        return machine_code.read_triton(self.compiled)


def triton_specialization(case: Case, arch: str) -> Any:
    """What the Triton twin of a case is compiled from, for an architecture that need not be here."""
    assert case.technique is not None
    module = importlib.import_module(f"triton_kernels.{techniques.get(case.technique).path.replace('/', '.')}")
    return module.specialize(case.problem, None, case.tile, arch)


class PeerVariant(Variant):
    """A library's attention, with log-sum-exp where it can write it."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        p = case.problem
        start = time.perf_counter()
        if case.backend.startswith("sdpa") and p.causal and p.seq_q != p.seq_kv:
            raise Unsupported("SDPA aligns its causal mask top-left when the lengths differ; ours is bottom-right")
        self.attend: Callable[..., tuple[Tensor, Tensor | None]] = getattr(self, f"_{case.backend}")()
        self.compile_s = time.perf_counter() - start if case.backend == "flex" else None

    def launch(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> None:
        out, out_lse = self.bind(q, k, v, o, lse, scale=scale, causal=causal)()
        o.copy_(out)
        if out_lse is not None:
            lse.copy_(out_lse.reshape(lse.shape))

    def bind(self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, *, scale: float, causal: bool) -> Call:
        self._check(q, k, v, o, lse, scale, causal)
        return functools.partial(self.attend, q, k, v, scale)

    def _sdpa_flash(self) -> Callable[..., Any]:
        import torch

        causal = self.problem.causal
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return lambda q, k, v, scale: flash(q, k, v, 0.0, causal, False, scale=scale)[:2]

    def _sdpa_cudnn(self) -> Callable[..., Any]:
        import torch

        causal = self.problem.causal
        cudnn = torch.ops.aten._scaled_dot_product_cudnn_attention
        return lambda q, k, v, scale: cudnn(q, k, v, None, True, 0.0, causal, False, scale=scale)[:2]

    def _sdpa_math(self) -> Callable[..., Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as sdpa

        self.label = "no LSE"
        causal, grouped = self.problem.causal, self.problem.heads != self.problem.heads_kv

        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, None]:
            with sdpa_kernel(SDPBackend.MATH):
                return sdpa(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped), None

        return attend

    def _flex(self) -> Callable[..., Any]:
        import torch
        from torch.nn.attention import flex_attention as flex

        p = self.problem
        mask = None
        if p.causal:
            shift = p.seq_kv - p.seq_q
            mask = flex.create_block_mask(
                lambda b, h, i, j: j <= i + shift, None, None, p.seq_q, p.seq_kv, device="cuda"
            )
        torch._dynamo.reset()  # one problem per compilation: no shape is generalized over an earlier one
        compiled = torch.compile(flex.flex_attention, mode="max-autotune-no-cudagraphs", dynamic=False)
        grouped = p.heads != p.heads_kv

        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
            return compiled(q, k, v, block_mask=mask, scale=scale, enable_gqa=grouped, return_lse=True)

        return attend

    def _fa2(self) -> Callable[..., Any]:
        from flash_attn import flash_attn_func

        return self._flash_layout(flash_attn_func, softmax_scale=None, return_attn_probs=True)

    def _fa3(self) -> Callable[..., Any]:
        from flash_attn_interface import flash_attn_func

        return self._flash_layout(flash_attn_func, return_attn_probs=True)

    def _fa4(self) -> Callable[..., Any]:
        from flash_attn.cute import flash_attn_func

        return self._flash_layout(flash_attn_func, return_lse=True)

    def _flash_layout(self, attend: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """FlashAttention's own functions take (batch, seq, heads, dim); a transposed view costs nothing."""
        causal = self.problem.causal

        def call(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
            views = (tensor.transpose(1, 2) for tensor in (q, k, v))
            out, lse, *_ = attend(*views, causal=causal, **{**options, "softmax_scale": scale})
            return out.transpose(1, 2), lse

        return call


def prebuild(cases: Iterable[Case], progress: Callable[[int, int, str], None] | None = None) -> None:
    """Compiles the kernels of all cases in parallel, as this GPU will load them: CUDA libraries in threads that wait
    for nvcc, Triton programs in processes that have their environment. `progress(done, total, label)` follows each.

    A kernel that does not compile is left for `load` and the first launch, which say so in its row.
    """
    arch = gpu_arch()
    libraries: dict[Any, Case] = {}
    programs: dict[Any, dict[Any, Case]] = {}
    for case in cases:
        if case.technique is None or case.tile is None:
            continue
        technique = techniques.get(case.technique)
        if techniques.unsupported(technique, case.backend, case.problem, case.tile):
            continue
        if case.backend == "cuda":
            libraries[(technique.path, *sorted(constants(case).items()))] = case
        else:
            environment = tuple(sorted((environment_of(case) or {}).items()))
            programs.setdefault(environment, {})[technique.path, case.problem, case.tile] = case
    total = len(libraries) + sum(len(group) for group in programs.values())
    done = 0

    def follow(futures: Iterable[Future[str]]) -> None:
        nonlocal done
        for future in as_completed(futures):
            done += 1
            if progress:
                progress(done, total, "(failed)" if future.exception() else future.result())

    cores = len(os.sched_getaffinity(0))  # runs on several GPUs of a host share its cores by taskset
    with ThreadPoolExecutor(cores) as pool:
        follow([pool.submit(_build_library, case, arch) for case in libraries.values()])
    for environment, group in programs.items():
        jobs, spawn = min(len(group), cores), multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, spawn, initializer=_set_environment, initargs=(environment,)) as processes:
            follow([processes.submit(_compile_program, case, arch) for case in group.values()])


def _build_library(case: Case, arch: str) -> str:
    from harness import machine_code

    machine_code.disassemble(build_cuda(case, arch).library)  # the gate wants it: here it is read in parallel
    return str(case)


def _set_environment(variables: Iterable[tuple[str, str]]) -> None:
    os.environ.update(variables)


def _compile_program(case: Case, arch: str) -> str:
    """Leaves the Triton program in Triton's cache, where the launcher finds it."""
    from triton import knobs

    from harness import machine_code

    knobs.compilation.listener = note_compile_time
    machine_code.read_triton(triton_specialization(case, arch).compile())
    return str(case)


def note_compile_time(*, metadata_group: dict[str, str], times: Any, cache_hit: bool, **_: Any) -> float | None:
    """Seconds that Triton needed for the kernel in `metadata_group` (file -> path in its cache), noted beside it when
    it was compiled. None when the cache holds a kernel without our note."""
    note = Path(next(iter(metadata_group.values()))).parent / "compile_s"
    if not cache_hit:
        note.write_text(str(times.total / 1e6))
    return float(note.read_text()) if note.is_file() else None
