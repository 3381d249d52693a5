"""Is this output right? Limits taken from data, and the gate that a kernel passes before anything is timed.

The rule: in every block of query rows, over all batches and heads,
    max |O - truth| <= 2 * the yardstick's + half an ulp of the largest |O|,
    |O - truth|_2   <= 1.5 * the yardstick's + a sixteenth of a rounding of |O|_2,
and |LSE - truth| is within what fp32 arithmetic may do. Factors of 2 and 1.5, because a kernel rounds P against its
running max, which draws other roundings than the yardstick's: right kernels were seen to need 1.1 of the norm, while
accumulating O in 16 bits over 2048 keys takes 2 to 4.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.catalog.problem import Problem
from harness.operators.attention.inputs import (
    DISTRIBUTIONS,
    SCALE_FACTORS,
    Inputs,
    Outputs,
    make_outputs,
    same_bits,
    sample,
)
from harness.operators.attention.reference import BlockNorms, Expected, blocks, expect

MAX_ERROR_FACTOR = 2.0
REL_L2_FACTOR = 1.5
REPEAT_SECONDS = 0.1
"""A race is in the order of threads and not in the values, so that launches of 50 ms, or of a second on a CPU, need not
be repeated as often for the second distribution as for the first."""

Failure = tuple[str, str]
"""(check, reason): a short stable id, and a sentence with figures."""


@dataclass(frozen=True)
class Verdict:
    """`check` names the check that failed and `reason` says how; both are None for a pass.

    `numerics` is safe for JSON: finite numbers, or None for one that is not finite.
    """

    passed: bool
    check: str | None
    reason: str | None
    numerics: dict[str, Any]

    @property
    def status(self) -> str:
        return "passed" if self.passed else "wrong"


def gate(
    launch: Callable[..., object],
    problem: Problem,
    *,
    distributions: Sequence[str] = tuple(DISTRIBUTIONS),
    seeds: Sequence[int] = (0,),
    device: torch.device | str = "cuda",
    repeats: int = 10,
    padded: bool = False,
    peer: bool = False,
) -> Verdict:
    """Runs `launch(q, k, v, o, lse, *, scale, causal)` on every distribution and seed; stops at the first wrong one.

    All runs share their addresses, and at least two differ in their values, so that an answer kept from an earlier
    call is found out. Every case runs on outputs poisoned in two ways and gives the same bits `repeats` times, whether
    NaN or large numbers lie around q, k and v; after the first case, slow launches are repeated for REPEAT_SECONDS
    only. `padded` gives all tensors other strides, with such rows and columns between theirs, for kernels that take
    any stride; `peer` asks what judge_peer asks and no more, at the problem's own scale, since some libraries compile
    anew for another.
    `numerics` of the verdict: distribution (and seed, after the first one) -> figures. What `launch` raises passes
    through; raises reference.HarnessError when there is no finite answer to compare with.
    """
    cases = [(distribution, seed) for seed in seeds for distribution in distributions]
    if len(cases) == 1:
        cases.append((distributions[0], seeds[0] + 1))
    inputs = Inputs(problem, sample(problem, *cases[0], device), padded=padded)
    outputs = make_outputs(problem, device, padded=padded)

    def run(poison: str) -> None:
        outputs.poison(poison)
        launch(inputs.q, inputs.k, inputs.v, outputs.o, outputs.lse, scale=scale, causal=problem.causal)
        if outputs.o.is_cuda:
            torch.cuda.synchronize(outputs.o.device)  # a fault shows here, in the case that made it

    numerics: dict[str, Any] = {}
    previous = None
    for number, (distribution, seed) in enumerate(cases):
        scale = problem.scale * (1.0 if peer else SCALE_FACTORS.get(distribution, 1.0))
        expected = expect(problem, distribution, seed, device, scale)
        inputs.load(expected.sample)
        run("nan")
        if peer:
            verdict = judge_peer(outputs.o, expected)
        else:
            verdict = judge(outputs.o, outputs.lse, expected)
            first = {name: arena.tensor.clone() for name, arena in outputs.arenas.items()}
            failure = _check_memory(inputs, outputs) or _check_written(outputs)
            if failure is None and not verdict.passed and previous and same_bits(outputs.o, previous["o"]):
                failure = "stale_output", "O is, bit by bit, that of the previous inputs"
            if failure is None and verdict.passed:
                failure = _check_repeats(run, inputs, outputs, first, repeats, REPEAT_SECONDS if number else math.inf)
            if failure is not None:
                verdict = _verdict(failure, verdict.numerics)
            previous = first
        numerics[distribution if seed == seeds[0] else f"{distribution}, seed {seed}"] = verdict.numerics
        if not verdict.passed:
            return replace(verdict, reason=f"{distribution}, seed {seed}: {verdict.reason}", numerics=numerics)
    return Verdict(True, None, None, numerics)


def judge(o: torch.Tensor, lse: torch.Tensor, expected: Expected) -> Verdict:
    """The verdict on one output. Checks, in order: masked_rows, finite, max_error, rel_l2, lse."""
    difference = o.float() - expected.o
    errors, floor = BlockNorms.of(difference), _floor(expected.size, o.dtype)
    visible = ~expected.hidden
    lse_error = (lse.double() - expected.lse)[..., visible].abs().max().item()
    failure = (
        _check_hidden_rows(o, lse, expected.hidden)
        or _check_finite(o, "O")
        or _check_finite(lse[..., visible], "LSE")
        or _check_errors(errors, difference, expected.size, expected.yardstick, floor)
    )
    if failure is None and not lse_error <= expected.lse_tolerance:
        failure = "lse", f"LSE is off by {lse_error:.3g}, allowed {expected.lse_tolerance:.3g}"
    numerics = {
        **_figures(errors, expected, floor),
        "lse_max_abs": _number(lse_error),
        "lse_tolerance": expected.lse_tolerance,
    }
    return _verdict(failure, numerics)


def judge_peer(o: torch.Tensor, expected: Expected) -> Verdict:
    """The verdict on a library's O: finite, max_error, rel_l2. Rows that see no key are its own affair.

    Where plain PyTorch is worse than the yardstick, the limits rest on it: a library may round the scores, too.
    """
    difference, floor = o.float() - expected.o, _floor(expected.size, o.dtype)
    difference[:, :, expected.hidden] = 0.0
    errors = BlockNorms.of(difference)
    standard = BlockNorms(  # fmax, because a plain PyTorch that overflowed sets no standard
        torch.fmax(expected.yardstick.max_abs, expected.pytorch.max_abs),
        torch.fmax(expected.yardstick.l2, expected.pytorch.l2),
    )
    failure = _check_finite(o[:, :, ~expected.hidden], "O") or _check_errors(
        errors, difference, expected.size, standard, floor
    )
    return _verdict(failure, _figures(errors, expected, floor))


def judge_timed(
    o: torch.Tensor, lse: torch.Tensor | None, inputs: Inputs, problem: Problem, *, peer: bool = False
) -> Verdict:
    """The verdict on the last output of timed launches, all on `inputs`. A peer needs no lse."""
    expected = expect(problem, inputs.sample.distribution, inputs.sample.seed, o.device)
    verdict = judge_peer(o, expected) if peer or lse is None else judge(o, lse, expected)
    if not inputs.unchanged():
        return replace(verdict, passed=False, check="inputs_changed", reason="q, k, v or a guard band was written")
    return verdict


def judge_same(
    o: torch.Tensor, lse: torch.Tensor, other_o: torch.Tensor, other_lse: torch.Tensor, expected: Expected
) -> Verdict:
    """Whether two runs of one kernel on the same inputs differ by no more than the order of fp32 sums: a CPU, a GPU.

    In every block of query rows: max |difference| <= an ulp of the largest |O|, as the final rounding of either may go
    the other way, and |difference|_2 <= a quarter of a rounding of |O|_2. Sums in another order and other instructions
    for exp move the last bits of an fp32 number, and so a few of the 16-bit roundings of P and O: kernels that differ
    in nothing else were seen at a fifteenth of a rounding. One that rounds P against another running max, say because
    its key tile is another, is at 0.4. The two LSE are as close as each must be to the truth.
    """
    difference, floor = o.float() - other_o.float(), _floor(expected.size, o.dtype)
    errors = BlockNorms.of(difference)
    used = {
        "max_error": (errors.max_abs / (2 * floor.max_abs)).amax().item(),
        "rel_l2": (errors.l2 / (4 * floor.l2))[expected.size.l2 > 0].amax().item(),
        "lse": (lse - other_lse)[..., ~expected.hidden].abs().max().item() / expected.lse_tolerance,
    }
    numerics = {
        "differing": (difference != 0).float().mean().item(),
        "max_abs": _number(errors.max_abs.amax().item()),
        **{f"{name}_used": _number(share) for name, share in used.items()},
    }
    failure = _check_finite(o, "O") or _check_finite(other_o, "the other O")
    for name, share in used.items():
        if failure is None and not share <= 1:
            reason = f"{numerics['differing']:.1%} of O differ; {name} is {share:.3g} times what another order explains"
            failure = f"other_{name}", reason
    return _verdict(failure, numerics)


def _verdict(failure: Failure | None, numerics: dict[str, Any]) -> Verdict:
    check, reason = failure or (None, None)
    return Verdict(failure is None, check, reason, numerics)


def _floor(size: BlockNorms, dtype: torch.dtype) -> BlockNorms:
    """What the limits allow beside the yardstick, which is 0 where all outputs fall on representable values.

    Max: half an ulp of the largest |O|, as its final rounding may go the other way. That is also more than fp32 scores
    summed in another order can move O: 1e-4 of it at the largest logits. L2: a sixteenth of a rounding per element.
    """
    info = torch.finfo(dtype)
    exponent = torch.frexp(size.max_abs.clamp_min(info.tiny)).exponent - 1
    return BlockNorms(torch.exp2(exponent) * info.eps / 2, size.l2 * info.eps / 32)


def _check_memory(inputs: Inputs, outputs: Outputs) -> Failure | None:
    if changed := inputs.changed():
        return "inputs_changed", f"the kernel wrote into {', '.join(changed)}"
    for name, arena in {**inputs.arenas, **outputs.arenas}.items():
        if not arena.guards_intact():
            return "guard_band", f"the kernel wrote outside {name}, into its guard band"
    return None


def _check_written(outputs: Outputs) -> Failure | None:
    for name, arena in outputs.arenas.items():
        if count := int(arena.unwritten().sum()):
            return "unwritten", f"{count} of {arena.tensor.numel()} elements of {name} were not written"
    return None


def _check_repeats(
    run: Callable[[str], None],
    inputs: Inputs,
    outputs: Outputs,
    first: Mapping[str, torch.Tensor],
    launches: int,
    seconds: float,
) -> Failure | None:
    """Runs until there were `launches`, or for `seconds`, at least once more: the same bits every time, whatever lay in
    the outputs before, and with numbers in place of NaN around q, k and v."""
    inputs.load(inputs.sample, around="finite")
    begin = time.perf_counter()
    for launch in range(2, max(2, launches) + 1):
        run("finite" if launch % 2 == 0 else "nan")
        for name, arena in outputs.arenas.items():
            if not same_bits(arena.tensor, first[name]):
                failure = (
                    "not_repeatable",
                    f"launch {launch}, with numbers in place of NaN around q, k and v, gives another {name} than "
                    "launch 1",
                )
                return _check_memory(inputs, outputs) or _check_written(outputs) or failure
        if time.perf_counter() - begin > seconds:
            break
    return _check_memory(inputs, outputs)


def _check_hidden_rows(o: torch.Tensor, lse: torch.Tensor, hidden: torch.Tensor) -> Failure | None:
    if bool((o[:, :, hidden] != 0).any()) or bool((lse[..., hidden] != -torch.inf).any()):
        return "masked_rows", f"expected O = 0 and LSE = -inf in the first {int(hidden.sum())} rows, which see no key"
    return None


def _check_finite(tensor: torch.Tensor, name: str) -> Failure | None:
    bad = ~tensor.isfinite()
    if not (count := int(bad.sum())):
        return None
    where = tuple(int(i) for i in bad.nonzero()[0])
    return "finite", f"{count} of {bad.numel()} elements of {name} are NaN or infinite, the first at {where}"


def _check_errors(
    errors: BlockNorms, difference: torch.Tensor, size: BlockNorms, standard: BlockNorms, floor: BlockNorms
) -> Failure | None:
    """The first rule that a block breaks, told of the block that breaks it most."""
    rows = blocks(torch.arange(difference.shape[2]))
    limit = MAX_ERROR_FACTOR * standard.max_abs + floor.max_abs
    if not bool((errors.max_abs <= limit).all()):
        b = int((errors.max_abs / limit).argmax())
        part = difference[:, :, rows[b][0] : rows[b][-1] + 1].abs()
        batch, head, row, column = (int(i) for i in torch.unravel_index(part.argmax(), part.shape))
        return "max_error", (
            f"O is off by {errors.max_abs[b]:.3g} in batch {batch}, head {head}, row {int(rows[b][0]) + row}, "
            f"column {column}; allowed {limit[b]:.3g} = "
            f"{MAX_ERROR_FACTOR:g} * {standard.max_abs[b]:.3g} + {floor.max_abs[b]:.3g}"
        )
    limit = REL_L2_FACTOR * standard.l2 + floor.l2
    if not bool((errors.l2 <= limit).all()):
        b = int((errors.l2 / limit).argmax())
        return "rel_l2", (
            f"O has relative L2 error {errors.l2[b] / size.l2[b]:.3g} in rows {int(rows[b][0])} to {int(rows[b][-1])}; "
            f"allowed {limit[b] / size.l2[b]:.3g} = {REL_L2_FACTOR:g} * {standard.l2[b] / size.l2[b]:.3g} + rounding"
        )
    return None


def _figures(errors: BlockNorms, expected: Expected, floor: BlockNorms) -> dict[str, float | None]:
    """Over all blocks; `*_used` is the worst block's share of its limit, 1 being just allowed."""
    size = torch.linalg.vector_norm(expected.size.l2)
    max_limit = MAX_ERROR_FACTOR * expected.yardstick.max_abs + floor.max_abs
    l2_limit = REL_L2_FACTOR * expected.yardstick.l2 + floor.l2
    figures = {
        "max_abs": errors.max_abs.amax(),
        "rel_l2": torch.linalg.vector_norm(errors.l2) / size,
        "max_error_used": (errors.max_abs / max_limit).amax(),
        "rel_l2_used": (errors.l2 / l2_limit)[expected.size.l2 > 0].amax(),
        "yardstick": expected.yardstick.max_abs.amax(),
        "yardstick_rel_l2": torch.linalg.vector_norm(expected.yardstick.l2) / size,
        "floor": floor.max_abs.amax(),
        "pytorch_max_abs": expected.pytorch.max_abs.amax(),
        "pytorch_rel_l2": torch.linalg.vector_norm(expected.pytorch.l2) / size,
    }
    return {name: _number(float(value)) for name, value in figures.items()}


def _number(value: float) -> float | None:
    """For JSON, which has no NaN and no infinity."""
    return value if math.isfinite(value) else None
