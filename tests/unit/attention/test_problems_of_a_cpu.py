"""What `check --on cpu` launches: each way to mix up batches, heads and lengths is wrong on one of its problems."""

from __future__ import annotations

import pytest

from experiments.correctness import WITHOUT_GPU
from harness.attention import numerics
from tests.support import wrong_kernels
from tests.support.wrong_kernels import Tiled


def finds(kernel: Tiled) -> bool:
    return not all(
        numerics.gate(
            kernel,
            problem,
            distributions=WITHOUT_GPU.distributions,
            device="cpu",
            repeats=2,
            padded=WITHOUT_GPU.padded,
        ).passed
        for problem in WITHOUT_GPU.problems
    )


@pytest.mark.parametrize(
    "kernel",
    [
        wrong_kernels.BatchOfVForK,
        wrong_kernels.FirstBatchOnly,
        wrong_kernels.WrongHeadForGroupedHeads,
        wrong_kernels.HeadsOfOtherGroups,
        wrong_kernels.CausalTopLeft,
        wrong_kernels.RowsWithoutKeysDivided,
        wrong_kernels.LastRowsBeyondKeysUnwritten,
        wrong_kernels.LastRaggedRowsUnwritten,
        wrong_kernels.ReadsBeyondRaggedTail,
        wrong_kernels.ValuesBeyondRaggedTail,
        wrong_kernels.ScaleIgnored,
    ],
)
def test_a_mix_up_is_found_on_a_cpu(kernel: type[Tiled]) -> None:
    assert finds(kernel())


@pytest.mark.parametrize("block_n", [16, 64, 128, 256])
def test_a_right_kernel_is_right_on_a_cpu(block_n: int) -> None:
    kernel = Tiled()
    kernel.block_n = block_n
    assert not finds(kernel)
