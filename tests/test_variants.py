"""harness/variants: what a loaded kernel refuses before it is launched."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import inputs
from harness.problem import Problem, Tile
from harness.variants import Case, CpuCudaVariant, PeerVariant, Unsupported, Variant, cuda, triton


@pytest.mark.parametrize(("available", "fits"), [(166_912, True), (131_072, True), (101_376, False)])
def test_a_tile_that_this_gpu_has_no_shared_memory_for_is_declined(
    monkeypatch: pytest.MonkeyPatch, available: int, fits: bool
) -> None:
    """8.0, 8.6 and 8.9 all run sm_80 code, with different amounts of shared memory."""
    library = SimpleNamespace(shared_memory_bytes=lambda: 131_072, launch=SimpleNamespace())
    monkeypatch.setattr(cuda, "gpu_arch", lambda: "sm_80")
    monkeypatch.setattr(cuda, "build_cuda", lambda *_: SimpleNamespace(library=Path("x.so"), seconds=1.0, flags=()))
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


@pytest.mark.parametrize("cls", [cuda.CudaVariant, CpuCudaVariant, triton.TritonVariant, PeerVariant])
def test_bad_tensors_are_refused_before_any_language_sees_them(cls: type[Variant]) -> None:
    problem = Problem.square(1, 2, 128, 64)
    variant = cls.__new__(cls)  # nothing is built, and nothing needs to be
    Variant.__init__(variant, Case("test", "xor_swizzle", "cuda", problem, Tile(64, 64)))
    qkv, out = inputs.make(problem, "normal", 0, "cpu"), inputs.make_outputs(problem, "cpu")
    tensors = {"q": qkv.q, "k": qkv.k, "v": qkv.v, "o": out.o, "lse": out.lse}
    for wrong, error in (
        ({"scale": float("nan")}, r"scale: got nan, expected finite and positive"),
        ({"o": qkv.q}, r"o: got memory that overlaps q"),
        ({"causal": True}, r"problem: got tensors of .*True\), expected .*False\) as compiled for"),
    ):
        with pytest.raises(ValueError, match=error):
            variant.launch(**{**tensors, "scale": problem.scale, "causal": False, **wrong})
