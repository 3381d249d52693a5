"""Kernels compiled by another Triton than the installed one, anywhere, and launched here by CUDA's driver.

A backend with a version, such as gluon@3.9.0, is a series like any other. `compile` needs that Triton
(build.tritons) and no GPU; it leaves in build/cubins/<backend>/ what a launch must know, one file a case,

    <technique>.<problem>.128x128-s2-w8.sm_90a.json

and beside those folders the cubins, by the hash of their bytes: problems often share one. A GPU machine needs the
folder build/cubins, and no other Triton.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import json
import math
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.build import cubin_child, cuda_driver, tritons
from harness.build.triton import environment_of
from harness.build.variant import Call, Variant
from harness.catalog import sources
from harness.catalog.cases import Case, source_sha256
from harness.operators.errors import CompileError, LaunchError, Unsupported
from harness.operators.protocol import Scalars, Tensors

if TYPE_CHECKING:
    from torch import Tensor

FOLDER = sources.ROOT / "build" / "cubins"
SECONDS = 300
"""Seconds that one kernel may take to compile."""
TYPES = {
    **{f"i{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
    "i1": ctypes.c_int8,
    "u1": ctypes.c_uint8,
    "fp32": ctypes.c_float,
    "fp64": ctypes.c_double,
}
"""Type of a parameter, in Triton's words, -> of ctypes. Pointers and tensor maps come beside."""
KIND_OF_ELEMENT = {8: 10, 9: 8, 10: 9}
"""What Triton writes down of an element's type for descriptors made on the GPU -> CUtensorMapDataType, where they
differ: fp64, fp16, bf16... in another order."""


def compile(case: Case, arch: str) -> dict[str, Any]:
    """Compiles a case by the Triton that its backend names, for `arch`, and keeps the cubin and what its launch must
    know, which it returns. Nothing is compiled that is there already. Raises Unsupported where that Triton is not here,
    CompileError with the compiler's words."""
    with contextlib.suppress(Unsupported):
        return known(case, arch)
    try:
        variables = tritons.variables(*_triton(case))
    except tritons.MissingTriton as error:
        raise Unsupported(str(error)) from None
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", cubin_child.__name__, pickle.dumps((case, arch)).hex(), place]
        environment = {**variables, **(environment_of(case) or {})}
        try:
            done = subprocess.run(
                command, env=environment, cwd=sources.ROOT, capture_output=True, text=True, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            raise CompileError(f"{case}: not compiled within {SECONDS} s") from None
        if done.returncode:
            raise CompileError(f"{case}: {_words(done.stderr) or f'the compiler ended: {done.returncode}'}")
        about = json.loads((Path(place) / "launch.json").read_text())
        cubin = (Path(place) / "cubin").read_bytes()
    about = {**_identity(case, arch), **about, "cubin": hashlib.sha256(cubin).hexdigest()}
    sources.put(_cubin(about), cubin)
    sources.put(_file(case, arch), json.dumps(about, indent=1).encode())
    return about


def known(case: Case, arch: str) -> dict[str, Any]:
    """What the launch of a case's cubin must know. Raises Unsupported, with what is wrong and the command that mends
    it, where there is none for this architecture, or it was made of other sources, by another Triton, or is damaged."""
    file = _file(case, arch)
    triton = tritons.name(*_triton(case))
    remedy = f"`{_command(case, arch)}` makes it on a machine that has {triton}; then carry build/cubins here"
    if not file.is_file():
        others = sorted(path.suffixes[-2][1:] for path in file.parent.glob(file.name.replace(arch, "*")))
        there = f", but for {', '.join(others)}" if others else ""
        raise Unsupported(f"no cubin for {arch} is in build/cubins{there}: {remedy}")
    about: dict[str, Any] = json.loads(file.read_text())
    for name, wanted in _identity(case, arch).items():
        if (got := about.get(name)) != wanted:
            raise Unsupported(f"the cubin's {name}: got {str(got)[:12]}, expected {str(wanted)[:12]}: {remedy}")
    cubin = _cubin(about)
    if not cubin.is_file() or hashlib.sha256(cubin.read_bytes()).hexdigest() != about["cubin"]:
        raise Unsupported(f"the cubin {cubin.name[:12]} is missing or damaged: {remedy}")
    return about


def _triton(case: Case) -> tuple[str, str]:
    language, _, version = case.backend.partition("@")
    return version, "tlx" if language == "tlx" else "triton"


def _identity(case: Case, arch: str) -> dict[str, str]:
    """What must be the same where a cubin is made and where it is launched."""
    return {
        "triton": _triton(case)[0],
        "arch": arch,
        "source_sha256": str(source_sha256(case)),
        "format": hashlib.sha256(sources.code(Path(cubin_child.__file__)).encode()).hexdigest(),
    }


def _file(case: Case, arch: str) -> Path:
    assert case.tile is not None
    return FOLDER / case.backend / f"{case.technique}.{case.problem.slug}.{case.tile.slug}.{arch}.json"


def _cubin(about: Mapping[str, Any]) -> Path:
    return FOLDER / f"{about['cubin']}.cubin"


def _command(case: Case, arch: str) -> str:
    assert case.tile is not None
    where = f"--problem {case.problem.slug} --tile {case.tile.slug} --arch {arch}"
    return f"twinkernels inspect {case.problem.operator}/{case.technique} --backend {case.backend} {where}"


def _words(stderr: str) -> str:
    """The lines of a compiler's output that say what failed: MLIR prints the whole module too."""
    lines = [line.strip()[:400] for line in stderr.splitlines() if line.strip()]
    return "\n".join([line for line in lines if re.search(r"error:|Assertion|Error:", line)][:5] or lines[-1:])


class CubinVariant(Variant):
    """A cubin, launched as the launcher of the Triton that made it would. Tensor maps are encoded when it is bound, not
    at every launch."""

    def __init__(self, case: Case, arch: str) -> None:
        super().__init__(case)
        self.specialization = importlib.import_module(f"triton_kernels.{self.operator.name}.specialization")
        self.about = known(case, arch)
        self.compiler, self.compile_s = self.about["compiler"], self.about["compile_s"]
        names = [name for name, _ in self.about["parameters"]]
        # The scratch memory of all programs, in which a kernel makes descriptors, comes before the counter.
        self.descriptor_bytes = math.prod(self.about["programs"]) * self.about["scratch_bytes"]
        self.workspace_bytes = self.descriptor_bytes + (self.specialization.COUNTER_BYTES if "counter" in names else 0)

    @functools.cached_property
    def function(self) -> ctypes.c_void_p:
        cubin = _cubin(self.about).read_bytes()
        return cuda_driver.load(cubin, self.about["kernel"], self.about["shared"])

    def bind(self, tensors: Tensors, scalars: Scalars) -> Call:
        import torch

        device = self._check(tensors, scalars)
        on_gpu, workspace, about = _first(tensors).is_cuda, self._workspace(device), self.about
        most = torch.cuda.get_device_properties(device).shared_memory_per_block_optin if on_gpu else math.inf
        if about["shared"] > most:
            raise Unsupported(f"a block needs {about['shared']} bytes of shared memory, of which this GPU has {most}")
        x, *others = about["programs"]
        if about["programs_of_multiprocessor"]:
            x = min(x, about["programs_of_multiprocessor"] * self.specialization.multiprocessors(_first(tensors)))
        programs = (x, *others)
        with self._named():
            values = self._values(tensors, scalars, workspace)
            launch = launch_of(self.function, about, values, programs)

        outputs = self.outputs(tensors)

        def call(keep_alive: tuple[Any, ...] = (workspace, *tensors.values())) -> Tensors:
            with self._named():
                launch(torch.cuda.current_stream(device).cuda_stream if on_gpu else 0)
            return outputs

        return call

    def code(self) -> dict[str, Any]:
        found: dict[str, Any] = self.about["code"]
        return found

    def _values(self, tensors: Tensors, scalars: Scalars, workspace: Any) -> dict[str, Any]:
        """Every parameter by its name. Raises ValueError where the program was not compiled for these tensors."""
        given = self.specialization.arguments(**tensors, **scalars, tile=self.case.tile)
        values: dict[str, Any] = {name: _plain(value) for name, value in given.items()}
        address = 0 if workspace is None else workspace.data_ptr() + self.scratch_bytes
        values |= {
            "batches": _first(tensors).shape[0],
            "global_scratch": address if self.descriptor_bytes else 0,
            "profile_scratch": 0,
        }
        values |= {"counter": address + self.descriptor_bytes}
        maps = self.about["maps"]
        rows = {name.removesuffix("_desc"): "rows" for name in maps}
        for name, descriptor in self.specialization.describe({**given, "rows": 1}, rows).items():
            if name in maps:
                values |= described(name, descriptor, maps[name])
        for name, constant in self.about["constants"].items():
            if name in values and values[name] != constant:
                raise ValueError(f"{name}: got {values[name]}, expected {constant} as compiled for; load that problem")
        for name in self.about["multiples_of_16"]:
            if values[name] % 16:
                raise ValueError(
                    f"{name}: got {values[name]}, expected a multiple of 16 as compiled for packed tensors"
                )
        return values

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of the driver say which case they are of."""
        try:
            yield
        except LaunchError as error:
            raise LaunchError(f"{self.case}: {error}", error.code) from None


def described(name: str, descriptor: Any, tensor_map: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a descriptor becomes, by name: a tensor map, sizes and strides. `tensor_map`: what a cubin
    knows of it."""
    sizes, strides = list(descriptor.shape), list(descriptor.strides)
    encoded = cuda_driver.tensor_map(
        descriptor.base.data_ptr(),
        sizes,
        strides,
        tensor_map["block_size"],
        kind=KIND_OF_ELEMENT.get(tensor_map["elem_type"], tensor_map["elem_type"]),
        bytes=tensor_map["elem_size"],
        swizzle=tensor_map["swizzle"],
    )
    values = {name: encoded}
    for what, numbers in (("shape", sizes), ("strides", strides)):
        values |= {f"{name}.{what}.{dim}": number for dim, number in enumerate(numbers)}
    return values


def launch_of(
    function: ctypes.c_void_p, about: Mapping[str, Any], values: Mapping[str, Any], programs: tuple[int, ...]
) -> cuda_driver.Launch:
    """A launch of a cubin's kernel with these values, by name (`about`: what cubin_child.launch says of it)."""
    return cuda_driver.Launch(
        function,
        [_argument(kind, _plain(values[name])) for name, kind in about["parameters"]],
        grid=programs,
        threads=about["threads"],
        shared=about["shared"],
        blocks=about["blocks"],
        cooperative=about["cooperative"],
        programmatic=about["programmatic"],
    )


def _first(tensors: Tensors) -> Tensor:
    return next(iter(tensors.values()))


def _plain(value: Any) -> Any:
    return value.data_ptr() if hasattr(value, "data_ptr") else value


def _argument(kind: str, value: Any) -> Any:
    if kind == "nvTmaDesc":
        return value
    return ctypes.c_uint64(value) if kind.startswith("*") else TYPES[kind](value)
