"""harness/variants: what a loaded kernel refuses before it is launched."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.problem import Problem, Tile
from harness.variants import Case, Unsupported, cuda


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
