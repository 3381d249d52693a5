"""The kernels that measure limits: they compile to what they claim to measure, run right thread by thread on a CPU, and
their launches are told as rates."""

import ctypes
import math
import time
from dataclasses import replace
from typing import Any

import pytest
import torch

from cuda_kernels import cpu_build
from cuda_kernels.cpu_library import Library
from harness.build import roofs, sm_clocks
from harness.catalog import experiments, sources
from harness.catalog.roofs import WARPS, Roof
from harness.measure import roofs as measure
from harness.operators.attention.roofs import FOLDER
from harness.setup import doctor
from tests.support.cpu_run import watch

pytestmark = pytest.mark.spread

ALL = {roof.name: roof for roof in experiments.load("hopper_roofs").roofs}
KERNELS = {name: roof for name, roof in ALL.items() if roof.kernel}
QUICK_TO_COMPILE = ("exponentials_beside_n128", "loop_d64_no_exponentials")
QUICK_TO_RUN = ("softmax_d64_1_beside", "loop_d128_polynomial_2")


def quick(names: tuple[str, ...]) -> list[Any]:
    return [pytest.param(name, marks=() if name in names else pytest.mark.full) for name in KERNELS]


def cpu_library(roof: Roof) -> Library:
    path = cpu_build.HERE / FOLDER / f"{roof.kernel}.cu"
    return Library(cpu_build.build(path, roof.defines))


def test_every_kernel_of_the_folder_is_a_roof() -> None:
    folder = sources.ROOT / "cuda_kernels" / FOLDER
    assert {path.stem for path in folder.glob("*.cu")} == {roof.kernel for roof in KERNELS.values()}
    assert len(ALL) == len(experiments.load("hopper_roofs").roofs)
    assert all(roof.loops and (roof.flop or roof.amount) for roof in KERNELS.values())


@pytest.mark.parametrize("name", quick(QUICK_TO_COMPILE))
def test_the_machine_code_holds_what_the_roof_claims(name: str) -> None:
    if doctor.nvcc() is None:
        pytest.skip("no nvcc here")
    assert roofs.build_roof(KERNELS[name], measure.ARCH).missing == []


def test_a_claim_that_the_machine_code_does_not_bear_out_is_named() -> None:
    sass = "\n".join(
        [
            "\t\tFunction : planted",
            "        /*0010*/                   MUFU.EX2 R1, R1 ;",
            "        /*0020*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24 ;",
            "        /*0030*/                   BRA 0x10 ;",
        ]
    )
    roof = replace(ALL["exponentials"], loops=({"MUFU.EX2": 1, "HGMMA": 1},))
    assert roofs.unheld(roof, sass) == []
    (said,) = roofs.unheld(replace(roof, loops=({"MUFU.EX2": 2},)), sass)
    assert said == "no loop with {'MUFU.EX2': 2}; its loops have [{'MUFU.EX2': 1}]"


@pytest.mark.parametrize("name", quick(QUICK_TO_RUN))
def test_a_roof_runs_on_a_cpu_without_a_finding(name: str) -> None:
    """No race, no missing fence, no deadlock, every output written once, and nothing but numbers."""
    roof, blocks, steps = KERNELS[name], 2, 2
    library = cpu_library(roof)
    samples = torch.zeros(roofs.samples_shape(roof, blocks), dtype=torch.int64)
    results = torch.full((blocks, roofs.threads(roof)), math.nan)
    for label, tensor in {"samples": samples, "results": results}.items():
        watch(library, label, tensor, "out")
    args = roofs.RoofArgs(samples.data_ptr(), results.data_ptr(), steps, roofs.SEED)
    library.launch(ctypes.byref(args), None)
    assert library.diagnosis() == ""
    assert results.isfinite().all()
    taken = samples[..., 0]
    assert (taken[:, : roof.product_groups * WARPS or None] == steps).all()
    assert (taken > 0).all()
    clocks, nanoseconds = samples[..., 2] - samples[..., 1], samples[..., 4] - samples[..., 3]
    assert (nanoseconds > 0).all()
    assert (clocks - nanoseconds).abs().max() < 1e6, "a multiprocessor of the CPU runtime has 1 GHz"


def test_launches_are_told_as_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "CALIBRATION", 1)
    monkeypatch.setattr(measure, "TARGET", 1)
    roof = KERNELS[QUICK_TO_RUN[0]]
    library = cpu_library(roof)
    library.forget()
    row = measure._launch(roof, library.path, 2, "cpu")
    assert row["status"] == "passed"
    assert set(row["per_clock"]) == {"flop", "units"}
    assert {len(values) for values in row["per_clock"].values()} == {measure.LAUNCHES}
    assert len(row["tflops"]) == len(row["clock_ghz"]) == measure.LAUNCHES
    assert all(0.5 < clock < 2 for clock in row["clock_ghz"])


def test_polynomials_are_as_good_as_bf16(tmp_path: Any) -> None:
    """By the CPU twin of the kernels' own function, from 0 down to where exponentials end."""
    source = tmp_path / "polynomial.cu"
    source.write_text(
        "#include <attention/roofs.cuh>\n"
        "EXPORT void evaluate(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = polynomial_ex2(x[i]); }\n"
        "EXPORT int shared_memory_bytes() { return 0; }\n"
        "EXPORT int launch(const RoofArgs*, void*) { return 0; }\n"
    )
    library = Library(cpu_build.build(source, KERNELS["polynomials"].defines))
    x = torch.linspace(-120, 0, 20_001)
    powers = x.clone()
    library.handle.evaluate(ctypes.c_void_p(powers.data_ptr()), len(powers))
    exact = torch.exp2(x.double())
    error = ((powers - exact) / exact).abs().max()
    assert 7e-5 < error < 8e-5


MULTIPROCESSORS = 2
"""That cuda_kernels/cpu/ptx/device.cuh tells of."""


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(cpu_build.build(cpu_build.HERE / f"{sm_clocks.SOURCE}.cu", {}))


def test_every_multiprocessor_says_where_its_clock_stands(library: Library) -> None:
    stands = torch.zeros(MULTIPROCESSORS, 2, dtype=torch.int64)
    watch(library, "stands", stands, "out")
    library.launch(ctypes.byref(sm_clocks.ClockReadings(stands.data_ptr())), None)
    assert library.diagnosis() == ""
    assert (stands > 0).all()
    library.forget()


def test_cycles_over_nanoseconds_are_the_clock_of_the_call_between(library: Library) -> None:
    clocks = sm_clocks.SmClocks(library, MULTIPROCESSORS, "cpu")
    called = []
    clocks.around(lambda: called.append(time.sleep(0.01)))()
    assert len(called) == 1
    assert clocks.ghz() == pytest.approx(1, abs=1e-3)


def test_a_multiprocessor_that_was_not_read_is_left_out(library: Library) -> None:
    clocks = sm_clocks.SmClocks(library, MULTIPROCESSORS + 1, "cpu")
    with pytest.raises(RuntimeError, match="no multiprocessor with two readings"):
        clocks.ghz()
    clocks.around(lambda: time.sleep(0.01))()
    assert clocks.ghz() == pytest.approx(1, abs=1e-3)


@pytest.mark.gpu
def test_the_clock_around_a_long_call_is_one_that_the_gpu_can_have() -> None:
    clocks = sm_clocks.of_this_gpu()
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    clocks.around(lambda: a @ a)()
    assert 0.3 < clocks.ghz() < 3
