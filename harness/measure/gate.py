"""The gate that a kernel passes before anything is timed. Knows no operator: `Operator.compare` judges an output.

What a kernel is asked here beside right numbers: that every output is written, and nothing else; that the inputs stay
as they were; that an answer is not kept from an earlier call; that the same inputs give the same bits.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from harness import operators
from harness.measure.arenas import Inputs, Outputs, make_outputs, same_bits
from harness.operators.protocol import Expected, Failure, Problem, Sample, Verdict

REPEAT_SECONDS = 0.1
"""A race is in the order of threads and not in the values, so that launches of 50 ms, or of a second on a CPU, need not
be repeated as often for the second distribution as for the first."""

_answers: dict[tuple[Problem, torch.device, str, int, bool], Expected] = {}


def expect(problem: Problem, distribution: str, seed: int, device: torch.device | str, *, peer: bool = False) -> Any:
    """What a sample should give, with the sample. The most recent problem's answers are remembered, as far as memory
    allows, since many kernels are judged on one problem; kernels and peers share that of equal samples."""
    device = torch.empty(0, device=device).device  # "cuda" and "cuda:0" are one device
    if any(known[:2] != (problem, device) for known in _answers):
        _answers.clear()
    key = (problem, device, distribution, seed, peer)
    if key in _answers:
        return _answers[key]
    operator = operators.of(problem)
    sample = operator.inputs(problem, distribution, seed, device, peer=peer)
    theirs = _answers.get((problem, device, distribution, seed, not peer))
    if theirs is not None and _are_equal(theirs.sample, sample):
        return theirs
    answer: Expected = operator.exact(problem, sample)
    budget = torch.cuda.mem_get_info(device)[1] // 5 if device.type == "cuda" else 2**30
    if sum(known.nbytes for known in _answers.values()) + answer.nbytes <= budget:
        _answers[key] = answer
    return answer


def _are_equal(one: Sample, other: Sample) -> bool:
    same = one.scalars == other.scalars and one.tensors.keys() == other.tensors.keys()
    return same and all(same_bits(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


def gate(
    launch: Callable[[Mapping[str, Any], Mapping[str, Any]], object],
    problem: Problem,
    *,
    distributions: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
    device: torch.device | str = "cuda",
    repeats: int = 10,
    padded: bool = False,
    peer: bool = False,
    may_leave_out: bool = False,
    may_vary: bool = False,
) -> Verdict:
    """Runs `launch(tensors, scalars)` on every distribution and seed; stops at the first wrong one. With
    `may_leave_out` it need not write optional outputs; with `may_vary` it need not give the same bits again, but right
    numbers every time.

    All runs share their addresses, and at least two differ in their values, so that an answer kept from an earlier
    call is found out. Every case runs on outputs poisoned in two ways and gives the same bits `repeats` times, whether
    NaN or large numbers lie around the inputs; after the first case, slow launches are repeated for REPEAT_SECONDS
    only. `padded` gives all tensors other strides, for kernels that take any; `peer` asks of a library that its numbers
    are right and no more.
    `numerics` of the verdict: distribution (and seed, after the first one) -> figures. What `launch` raises passes
    through, and what `Operator.exact` raises where it has no finite answer.
    """
    operator = operators.of(problem)
    cases = [(distribution, seed) for seed in seeds for distribution in distributions or operator.distributions]
    if len(cases) == 1:
        cases.append((cases[0][0], seeds[0] + 1))
    first_sample = expect(problem, *cases[0], device, peer=peer).sample
    inputs = Inputs(operator.input_specs(problem), first_sample, padded=padded)
    outputs = make_outputs(problem, device, padded=padded)
    tensors = {**inputs.tensors, **outputs.tensors}

    def run(poison: str) -> None:
        outputs.poison(poison)
        launch(tensors, inputs.scalars)
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize(device)  # a fault shows here, in the case that made it

    numerics: dict[str, Any] = {}
    left_out: list[str] = []
    varied: set[str] = set()
    previous: dict[str, torch.Tensor] | None = None
    for number, (distribution, seed) in enumerate(cases):
        expected = expect(problem, distribution, seed, device, peer=peer)
        inputs.load(expected.sample)
        run("nan")
        left_out = outputs.left_out() if may_leave_out or peer else []
        written = {name: tensor for name, tensor in outputs.tensors.items() if name not in left_out}
        verdict = operator.compare(written, expected, peer=peer)
        if not peer:
            first = {name: tensor.clone() for name, tensor in written.items()}
            failure = _check_memory(inputs, outputs) or _check_written(outputs, written)
            if failure is None and not verdict.passed and previous:
                failure = check_stale(first, previous, outputs.optional)
            if failure is None and verdict.passed:
                judge = partial(operator.compare, expected=expected) if may_vary else None
                seconds = REPEAT_SECONDS if number else math.inf
                failure = _check_repeats(run, inputs, outputs, first, repeats, seconds, judge, varied)
            if failure is not None:
                verdict = Verdict(False, *failure, verdict.numerics)
            previous = first
        numerics[distribution if seed == seeds[0] else f"{distribution}, seed {seed}"] = verdict.numerics
        if not verdict.passed:
            reason = f"{distribution}, seed {seed}: {verdict.reason}"
            if padded and verdict.check == "finite":
                reason += "; the padding between rows of an input, which is not contiguous, holds NaN"
            return replace(verdict, reason=reason, numerics=numerics, left_out=tuple(left_out))
    return Verdict(True, None, None, numerics, tuple(left_out), tuple(sorted(varied)))


def judge_timed(outputs: Mapping[str, Any], inputs: Inputs, problem: Problem, *, peer: bool = False) -> Verdict:
    """The verdict on the last output of timed launches, all on `inputs`."""
    sample = inputs.sample
    expected = expect(problem, sample.distribution, sample.seed, next(iter(inputs.tensors.values())).device)
    verdict = operators.of(problem).compare(outputs, expected, peer=peer)
    if not inputs.unchanged():
        reason = f"{', '.join(inputs.tensors)} or a guard band was written"
        return replace(verdict, passed=False, check="inputs_changed", reason=reason)
    return verdict


def _check_memory(inputs: Inputs, outputs: Outputs) -> Failure | None:
    if changed := inputs.changed():
        return "inputs_changed", f"the kernel wrote into {', '.join(changed)}"
    for name, arena in {**inputs.arenas, **outputs.arenas}.items():
        if not arena.guards_intact():
            return "guard_band", f"the kernel wrote outside {name}, into its guard band"
    return None


def _check_written(outputs: Outputs, names: Mapping[str, torch.Tensor]) -> Failure | None:
    for name in names:
        arena = outputs.arenas[name]
        if count := int(arena.unwritten().sum()):
            said = f"{count} of {arena.tensor.numel()} elements of {name} were not written, or come from the padding"
            return "unwritten", f"{said} between rows of an input, which is not contiguous: both hold poison"
    return None


def check_stale(
    now: Mapping[str, torch.Tensor], before: Mapping[str, torch.Tensor], optional: Sequence[str]
) -> Failure | None:
    """What is wrong with outputs that have the bits of those for other inputs."""
    stale = [name for name in now if name not in optional and name in before and same_bits(now[name], before[name])]
    if stale:
        return "stale_output", f"{', '.join(stale)}: bit by bit that of the previous inputs"
    return None


def _check_repeats(
    run: Callable[[str], None],
    inputs: Inputs,
    outputs: Outputs,
    first: Mapping[str, torch.Tensor],
    launches: int,
    seconds: float,
    judge: Callable[[Mapping[str, torch.Tensor]], Verdict] | None,
    varied: set[str],
) -> Failure | None:
    """Runs until there were `launches`, or for `seconds`, at least once more: the same bits every time, whatever lay in
    the outputs before, and with numbers in place of NaN around the inputs. Where there is a `judge`, bits may vary,
    which is noted in `varied`, and it judges what they say."""
    inputs.load(inputs.sample, around="finite")
    begin = time.perf_counter()
    for launch in range(2, max(2, launches) + 1):
        poison = "finite" if launch % 2 == 0 else "nan"
        run(poison)
        others = [name for name, earlier in first.items() if not same_bits(outputs.tensors[name], earlier)]
        if others:
            varied.update(others)
            again = f"launch {launch}, with numbers in place of NaN around {', '.join(inputs.tensors)}, gives another "
            failure: Failure | None = ("not_repeatable", f"{again}{others[0]} than launch 1")
            if judge is not None:
                verdict = judge({name: outputs.tensors[name] for name in first})
                failure = None if verdict.passed else (str(verdict.check), f"launch {launch}: {verdict.reason}")
            # A right number may have the bits of the finite poison by chance; none has those of the NaN.
            may_be_right = poison == "finite" and failure is None
            unwritten = None if may_be_right else _check_written(outputs, first)
            if failure := _check_memory(inputs, outputs) or unwritten or failure:
                return failure
        if time.perf_counter() - begin > seconds:
            break
    return _check_memory(inputs, outputs)
