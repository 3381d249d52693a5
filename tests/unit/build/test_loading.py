"""harness/build: what a loaded kernel refuses before it is launched."""

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cuda_kernels import cpu_build
from harness.build import Case, CpuCudaVariant, PeerVariant, Unsupported, Variant, cuda, load, triton
from harness.catalog.entries import Tile
from harness.measure import arenas
from harness.operators.attention.problem import Problem


@pytest.mark.parametrize(("available", "fits"), [(166_912, True), (131_072, True), (101_376, False)])
def test_a_tile_that_this_gpu_has_no_shared_memory_for_is_declined(
    monkeypatch: pytest.MonkeyPatch, available: int, fits: bool
) -> None:
    """8.0, 8.6 and 8.9 all run sm_80 code, with different amounts of shared memory."""
    library = SimpleNamespace(shared_memory_bytes=lambda: 131_072, launch=SimpleNamespace())
    monkeypatch.setattr(cuda, "gpu_arch", lambda: "sm_80")
    monkeypatch.setattr(
        cuda, "build_cuda", lambda *_: SimpleNamespace(library=Path("x.so"), log="", seconds=1.0, flags=())
    )
    monkeypatch.setattr(cuda, "cuda_compiler", lambda _: {})
    monkeypatch.setattr("ctypes.CDLL", lambda _: library)
    monkeypatch.setattr("torch.cuda.current_device", lambda: 0)
    properties = SimpleNamespace(shared_memory_per_block_optin=available)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: properties)
    case = Case("test", "xor_swizzle", "cuda", Problem.square(1, 1, 128, 128), Tile(128, 128))
    if fits:
        assert cuda.CudaVariant(case).shared_memory_bytes == 131_072
    else:
        with pytest.raises(Unsupported, match="needs 131072 bytes of shared memory, a block on this GPU has 101376"):
            cuda.CudaVariant(case)


def test_every_gpu_of_a_process_has_a_library_of_its_own(tmp_path: Path) -> None:
    """A library asks for its shared memory once, in a static variable: shared by two GPUs, it would ask for one."""
    source, library = tmp_path / "count.cpp", tmp_path / "count.so"
    source.write_text('extern "C" int count() { static int calls = 0; return ++calls; }')
    subprocess.run([cpu_build.compiler(), "-shared", "-fPIC", "-o", library, source], check=True)
    counts = [cuda.open_library(library, gpu).count() for gpu in (0, 1, 2, 1, 0)]
    assert counts == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("cls", [cuda.CudaVariant, CpuCudaVariant, triton.TritonVariant, PeerVariant])
def test_bad_tensors_are_refused_before_any_language_sees_them(cls: type[Variant]) -> None:
    problem = Problem.square(1, 2, 128, 64)
    variant = cls.__new__(cls)  # nothing is built, and nothing needs to be
    Variant.__init__(variant, Case("test", "xor_swizzle", "cuda", problem, Tile(64, 64)))
    qkv, out = arenas.make(problem, "normal", 0, "cpu"), arenas.make_outputs(problem, "cpu")
    tensors = {**qkv.tensors, **out.tensors}
    for wrong, error in (
        ({"scale": float("nan")}, r"scale: got nan, expected finite and positive"),
        ({"o": qkv.tensors["q"]}, r"o: got memory that overlaps q"),
        ({"causal": True}, r"problem: got tensors of .*True\), expected .*False\) as compiled for"),
    ):
        given = {**tensors, "scale": problem.scale, "causal": False, **wrong}
        scalars = {name: given.pop(name) for name in ("scale", "causal")}
        with pytest.raises(ValueError, match=error):
            variant.launch(given, scalars)
    for change, error in (
        (lambda tensor: tensor.to("meta"), r"q\.device: got meta, expected cpu"),
        (
            lambda tensor: tensor.half() if tensor.dim() == 4 else tensor,
            r"q\.dtype: got float16, expected bf",
        ),
    ):
        other = {name: change(tensor) for name, tensor in tensors.items()}
        with pytest.raises((TypeError, ValueError), match=error):
            variant.launch(other, {"scale": problem.scale, "causal": False})


def test_a_problem_that_a_technique_does_not_take_is_declined_before_anything_is_compiled() -> None:
    case = Case("test", "attention/scalar", "cuda", Problem.square(1, 1, 128, 256), Tile(64, 64))
    with pytest.raises(Unsupported, match="head_dim must be 64 or 128"):
        load(case, on="cpu")


def test_a_gpu_without_the_techniques_instructions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (7, 5))
    variant = Variant(Case("test", "xor_swizzle", "cuda", Problem.square(1, 2, 128, 64), Tile(64, 64)))
    variant.operator = replace(variant.operator, validate=lambda *_: None)
    with pytest.raises(ValueError, match=r"capability 7.5, too old for xor_swizzle \(ampere\)"):
        variant._check({"q": SimpleNamespace(device=torch.device("cuda"), is_cuda=True)}, {})


@pytest.mark.slow
def test_a_kernel_that_triton_had_knows_what_compiling_it_took(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two techniques of one program share a compiled kernel: the second one is not compiled, and no listener hears."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    case = Case("test", "exp2_softmax", "triton_native", Problem.square(1, 1, 128, 64), Tile(64, 64))
    variants = []
    for _ in range(2):
        variant = triton.TritonVariant(case, "gpu")
        variant.compiled = triton.compile_triton(case, "sm_90a")
        variant.code()
        variants.append(variant)
    assert variants[0].compile_s == variants[1].compile_s
    assert variants[0].compile_s is not None
    assert variants[0].compile_s > 0.1
    for note in tmp_path.rglob("compile_s"):
        note.unlink()
    variants[1].code()
    assert variants[1].compile_s is None
