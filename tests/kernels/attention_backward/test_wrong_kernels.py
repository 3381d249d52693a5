"""Wrong kernels of attention's backward pass, each made of a right one by one edit, and the check of the gate that
catches it. Several of them were shipped by libraries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.measure import gate
from harness.operators.attention_backward.problem import Problem
from tests.kernels.attention_backward.test_rungs import is_right
from tests.support.cpu_run import copied
from tests.support.gradients import launcher, library

pytestmark = pytest.mark.spread

GROUPED = Problem(1, 2, 1, 128, 128, 64, "fp16")
RAGGED = Problem(1, 1, 1, 100, 100, 64, "fp16")
ROWS, ONE, TWO = "row_sums.cuh", "hopper/one_kernel.cu", "hopper/two_kernels.cu"


@dataclass(frozen=True)
class Wrong:
    """`right` is in `file`, of cuda_kernels/attention_backward, as often as it says, and becomes `wrong`."""

    name: str
    file: str
    right: str
    wrong: str
    check: str
    problem: Problem = GROUPED
    distribution: str = "normal"
    times: int = 1

    @property
    def technique(self) -> str:
        return "two_kernels" if self.file == TWO else "one_kernel"


WRONG = (
    Wrong("sums_of_dq_not_zeroed", ROWS, "if (params.clears) {", "if (false) {", "finite"),
    Wrong(
        "scratch_beyond_the_last_query",
        ROWS,
        "    st_global(at.head.lse_log2(args) + at.row, lse == ",
        "    if (at.row < args.seq_q) st_global(at.head.lse_log2(args) + at.row, lse == ",
        "finite",
        RAGGED,
    ),
    Wrong(
        "missing_queries_overflow",
        ROWS,
        "lse == -INFINITY_F32 ? INFINITY_F32 : lse * LOG2_E",
        "lse * LOG2_E",
        "finite",
        RAGGED,
    ),
    Wrong("natural_lse_in_base_2", ROWS, "INFINITY_F32 : lse * LOG2_E", "INFINITY_F32 : lse", "max_error"),
    Wrong("dq_without_scale", ROWS, "const float scale = args.scale;", "const float scale = 1.f;", "max_error"),
    Wrong("one_head_of_the_group", ONE, "steps = q_tiles * heads_per_kv", "steps = q_tiles", "max_error"),
    Wrong("without_d", ONE, " - dot[half])", ")", "max_error"),
    Wrong("p_not_normalized", ONE, " * scale_log2 - lse[half])", " * scale_log2)", "max_error"),
    Wrong(
        "dk_without_scale",
        ONE,
        "dk_regs[d][half * 2] * args.scale, high = dk_regs[d][half * 2 + 1] * args.scale",
        "dk_regs[d][half * 2], high = dk_regs[d][half * 2 + 1]",
        "max_error",
    ),
    Wrong(
        "missing_keys_score_zero",
        ONE,
        "if (masks && col + i > visible) p[i] = 0.f;",
        "if (CAUSAL && masks && col + i > visible) p[i] = 0.f;",
        "finite",
        RAGGED,
        "negative_scores",
    ),
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_the_gate_catches_it(wrong: Wrong, tmp_path: Path) -> None:
    root = copied(tmp_path)
    file = root / "attention_backward" / wrong.file
    text = file.read_text()
    assert text.count(wrong.right) == wrong.times, "the kernel has changed: edit this test"
    file.write_text(text.replace(wrong.right, wrong.wrong))
    launch = launcher(library(wrong.technique, wrong.problem, root), wrong.problem)
    found = gate.gate(launch, wrong.problem, distributions=(wrong.distribution,), device="cpu", repeats=1)
    assert (found.passed, found.check) == (False, wrong.check), found.reason


@pytest.mark.parametrize("problem", [GROUPED, RAGGED], ids=lambda problem: problem.slug)
@pytest.mark.parametrize("technique", ["two_kernels", "one_kernel"])
def test_the_right_ones_pass(technique: str, problem: Problem) -> None:
    is_right(technique, problem, ("normal", "negative_scores"))
