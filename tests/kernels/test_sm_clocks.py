"""The kernel that reads the clock of every multiprocessor, here by its CPU twin, whose multiprocessors have 1 GHz."""

from __future__ import annotations

import ctypes
import time

import pytest
import torch

from cuda_kernels import cpu_build
from cuda_kernels.cpu_library import Library
from harness.build import sm_clocks
from tests.support.cpu_run import watch

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
