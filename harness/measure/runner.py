"""The loop: gates every case, times what passed, writes one row for whatever happens."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from harness import operators
from harness.catalog import techniques
from harness.catalog.cases import Case, declined, of_experiment
from harness.catalog.entries import NamedExperiment
from harness.catalog.own import Kernel
from harness.machine import environment
from harness.machine.progress import Interrupts, Progress
from harness.measure import groups, sharing
from harness.measure.session import NOT_TRIED, Session
from harness.measure.worker import Deadlines, Failed, GateOptions
from harness.operators.protocol import Problem
from harness.rows import results
from harness.rows.reading import AGAIN_LIMIT, is_final, median_ms, of_earlier_gate

IDLE = {"target": 0.008, "limit": 0.02, "max_seconds": 4.0}
"""Options of timing.time_group in idle mode: on the host of an H100 the times of a library varied by 6 to 13% from call
to call, and by 3 to 6% from second to second, alike for all members of a group."""
TICK_MS = 3.2e-5
"""Steps in which CUDA events tell times: two timings of a short kernel agree if they are two steps apart."""
MEASURED = ("passed", "wrong", "implausible", "not_converged")
"""Statuses of a case that did not end its worker."""
FINAL_TARGET = 0.002
"""Relative error of medians in a final group: the ratios of the headlines rest on them."""
MOST_TIMEOUTS = 2
"""Problems on which a kernel of the user's may run out of time; the others are not waited for then."""
NO_CALL = re.compile(r"TypeError: (?!.*\[[^\]]+:\d+\]$)", re.DOTALL)
"""The reason of a call that Python refused: it ends in no line of the user's file."""
CUPTI_ROUNDS = 20
"""Calls of each member of a group that CUPTI sees."""

Row = dict[str, Any]


def run(
    experiment: NamedExperiment,
    *,
    on: str = "gpu",
    path: Path,
    resume: bool = False,
    reusable: Sequence[Row] = (),
    modes: Sequence[str] | None = None,
    selected: Sequence[Case] | None = None,
    how: type[Run] | None = None,
    replicates: int = 1,
    cupti: bool | None = None,
    gate: Mapping[str, Any] | None = None,
    timing: Mapping[str, Any] | None = None,
    patient: bool = True,
    loader: str = "harness.build",
    deadlines: Deadlines | None = None,
) -> list[Row]:
    """Runs an experiment and returns the rows that it appended to `path`.

    `modes`: of timing; by default the experiment's on a GPU and none on a CPU. `selected` replaces the experiment's
    cases. `resume` skips what `path` already holds, unless it was interrupted; `reusable` are rows of other files that
    are as good. `how`: Run, the default, or tune.Tuning. `replicates`: how many processes time the final groups, each
    on another board where there are several: groups of burst mode, or of another mode where `modes` lacks burst.
    The second process also times by CUPTI what is timed in burst mode and has no such row, where there is a GPU or
    `cupti` says so. `gate` are fields of GateOptions that the experiment does not name, `timing` options of
    timing.time_group. Raises SystemExit after Ctrl-C (130) or SIGTERM (143): the first finishes the case in progress,
    the second marks it interrupted, and so does the first where the caller is not `patient`.
    """
    with results.Writer(path) as writer, Interrupts(patient) as interrupts, Progress() as progress:
        earlier = results.read(path) if resume else []
        session = Session(
            experiment.name,
            on,
            writer,
            earlier,
            importlib.import_module(loader),
            deadlines or Deadlines(),
            progress,
            interrupts,
            reusable,
            experiment.assembler,
        )
        todo = list(selected) if selected is not None else of_experiment(experiment, results.slug_of(session.gpu))
        options = GateOptions(experiment.distributions, padded=experiment.padded, **(gate or {}))
        if modes is None:
            modes = experiment.modes if on == "gpu" else ()
        burst = "burst" in modes
        further = sorted(modes)[:1]  # burst where it is among them
        by_cupti = burst and (on == "gpu" if cupti is None else cupti)
        this = (how or Run)(session, todo, modes, options, timing or {}, experiment.one_group)
        try:
            shared = sharing.busy_processes(experiment.sharing) if experiment.sharing else nullcontext(0)
            session.own = any(case.kernel for case in todo)
            with shared as this.sharing:
                this.gate_all()
            session.own = False
            session.release()  # the timing is done by processes of its own, with no other on the GPU
            for mode in modes:
                this.time_all(mode)
            if by_cupti:
                this.look_at_own()
            for number, mode in product(range(2, replicates + 1), further):
                this.time_replicate(number, mode, by_cupti=by_cupti and number == 2)
            this.repeat_same_programs()
        except KeyboardInterrupt:
            if patient or not interrupts.requested:
                raise
        finally:
            session.release()
    interrupts.leave(path)
    return session.rows


class Run:
    """Gates every case, and times what passed. `gated` and `timed` hold the newest row of each case, also of earlier
    runs."""

    kind = "timing"
    """The kind of the timed rows."""
    together = staticmethod(groups.twins)
    """A key: cases that share it are interleaved with each other."""

    def __init__(
        self,
        session: Session,
        todo: list[Case],
        modes: Sequence[str],
        gate_options: GateOptions,
        timing_options: Mapping[str, Any],
        one_group: bool = False,
    ) -> None:
        self.session, self.loader, self.on = session, session.loader, session.on
        self.modes, self.one_group = modes, one_group
        self.todo = dict.fromkeys(todo)
        self.gate_options, self.timing_options = gate_options, timing_options
        self.sharing = 0  # other processes that use the GPU during gates
        self.compiled: set[Case] = set()
        self.gated: dict[Case, Row] = {}
        self.unended: dict[Kernel, list[Case]] = {}  # kernels of the user's, and where they ran out of time
        self.uncalled: dict[Kernel, Case] = {}  # those that cannot be called as the operator does, and the first try
        self.timed: dict[tuple[Case, str], Row] = {}
        self.moved: set[tuple[Problem, str]] = set()  # problems and modes of which this run has timed a group

    # The gate

    def gate_all(self) -> None:
        """Gates every case, problem by problem, so that a worker computes the truth of each problem once."""
        fresh = self.fresh()
        for number, case in enumerate(fresh, 1):
            if self.session.interrupts.requested:
                return
            fields = self.gate(case)
            self.session.count = f"{number} of {len(fresh)}"
            self.settle(case, fields)
            self.session.count = ""
            self.session.progress.step("gate", number, len(fresh))

    def fresh(self) -> list[Case]:
        """The cases to gate, problem by problem and compiled; writes the rows of what is declined."""
        fresh = []
        for case in chain(*by_problem(self.todo)):
            if reason := self.declines(case):
                self.decline(case, reason)
            elif self.same_program(case) is None and not self.skips(case):
                fresh.append(case)
        self.compile(self.may_be_loaded(fresh))
        return fresh

    def compile(self, cases: Iterable[Case]) -> None:
        """Compiles for the GPU, in parallel, what this run has not compiled yet: a worker would do it one by one."""
        todo = [case for case in cases if case not in self.compiled]
        self.compiled.update(todo)
        if todo and self.on == "gpu":
            self.loader.prebuild(
                todo,
                lambda done, total, label: self.session.progress.step("compile", done, total, label),
                seconds=self.session.deadlines.load,
                stop=lambda: self.session.interrupts.requested,
            )

    def may_be_loaded(self, fresh: Sequence[Case]) -> list[Case]:
        """The cases to compile: of every problem on which something is left to do. What passed elsewhere is among them
        where anything is timed, because rows come without binaries."""
        if not self.modes:
            return list(fresh)
        passed = [case for case, gate in self.gated.items() if gate["status"] == "passed"]
        untimed = [
            case for case in passed if not all(self.session.earlier(case, self.kind, mode) for mode in self.modes)
        ]
        problems = {case.problem for case in (*fresh, *untimed)}
        return [case for case in dict.fromkeys([*fresh, *passed]) if case.problem in problems]

    def skips(self, case: Case) -> bool:
        earlier = self.session.earlier(case, "gate")
        if earlier is None or not self.covers(case, earlier):
            return False
        self.gated[case] = earlier
        return True

    def covers(self, case: Case, gate: Row) -> bool:
        """Whether a gate failed, or saw all that this run's gates see: the experiment may have gained inputs since, and
        the gate may have changed."""
        if gate["status"] != "passed":
            return True
        if of_earlier_gate(gate):
            return False
        details = gate.get("details") or {}
        if details.get("sharing", 0) != self.sharing or (self.gate_options.padded and not details.get("padded")):
            return False
        seen = {name.partition(",")[0] for name in gate["numerics"]}
        asked = self.options(case).distributions
        return seen >= set(asked) and len(gate["numerics"]) >= len(asked) * len(self.gate_options.seeds)

    def options(self, case: Case) -> GateOptions:
        """How the case is gated: a user's kernel gets further inputs, and bits may vary where a technique says so."""
        further = operators.of(case.problem).own_distributions if case.kernel else ()
        varies = case.technique is not None and not techniques.at(case.technique, case.problem).repeats
        return replace(self.gate_options, distributions=(*self.gate_options.distributions, *further), may_vary=varies)

    def declines(self, case: Case) -> str | None:
        if reason := self.loader.available(case.backend, self.on):
            return environment.scrub(reason)
        if case.technique is None:
            return None
        if self.session.source_sha256(case) is None:
            return f"{case.technique} has no {case.backend} kernel here"
        if case.tile is None:
            return "no tile is selected for this GPU yet: `twinkernels tune` selects"
        return declined(case)

    def decline(self, case: Case, reason: str) -> None:
        """Writes the row of a case that cannot be run here, unless a reusable row is about it."""
        fields = {"status": "unsupported", "reason": reason}
        if self.session.is_reusable(case, "gate"):
            self.gated[case] = fields
        else:
            self.settle(case, fields)

    def gate(self, case: Case) -> Row:
        if case.kernel and len(unended := self.unended.get(case.kernel, [])) >= MOST_TIMEOUTS:
            slugs = " and ".join(other.problem.slug for other in unended)
            reason = f"{NOT_TRIED} {case.name} did not end on {slugs}; `--problem {case.problem.slug}` tries this one"
            return {"status": "timeout", "reason": reason}
        if case.kernel and (first := self.uncalled.get(case.kernel)):
            reason = f"{NOT_TRIED} {case.name} could not be called on {first.problem.slug}"
            return {"status": "launch_error", "reason": reason}
        worker = self.session.worker(self.loader.environment_of(case, self.on) or {})
        try:
            fields = self.verdict(case, worker.call("gate", case, str(case), self.options(case)))
        except KeyboardInterrupt:
            return {"status": "interrupted", "reason": "stopped during the gate"}
        except Failed as failure:
            status, reason = failure.fields["status"], failure.fields["reason"]
            if case.kernel and status == "timeout":
                self.unended.setdefault(case.kernel, []).append(case)
            elif case.kernel and status == "launch_error" and NO_CALL.match(reason):
                self.uncalled[case.kernel] = case
            return self.verdict(case, failure.fields)
        expected = techniques.at(case.technique, case.problem).mma if case.technique else None
        if fields["status"] != "passed" and case.kernel is None:
            worker.kill()  # who knows what else a wrong kernel wrote to
        elif expected and not case.backend.startswith("triton_native") and fields["mma"] not in (None, expected):
            fields |= {
                "status": "wrong_instruction",
                "check": "instruction_class",
                "reason": f"the census says {fields['mma']}, the registry {expected}: not the same technique",
            }
        return fields

    def verdict(self, case: Case, fields: Row) -> Row:
        """A gate's fields, with the version of the comparison and how many other processes used the GPU meanwhile."""
        fields = {**fields, "gate": operators.of(case.problem).comparison}
        if self.sharing:
            fields["details"] = {**fields.get("details", {}), "sharing": self.sharing}
            if fields.get("reason"):
                others = "another process" if self.sharing == 1 else f"{self.sharing} other processes"
                fields["reason"] += f" (while {others} used the GPU)"
        return fields

    def settle(self, case: Case, fields: Row) -> None:
        self.gated[case] = self.write_outcome(case, "gate", fields)

    def write_outcome(self, case: Case, kind: str, fields: Row) -> Row:
        """Writes how a case ended, unless an earlier run had declined it or seen it fail; returns the row."""
        earlier = self.session.earlier(case, kind)
        if earlier is None or earlier["status"] == "passed":  # else it was declined before
            return self.session.write(case, {**fields, "kind": kind})
        return earlier

    def same_program(self, case: Case) -> Case | None:
        """The case that has this program under its first name, if that is run as well."""
        name = self.loader.same_program(case)
        twin = name and replace(case, technique=name)
        return twin if twin in self.todo else None

    # Timing

    def time_all(self, mode: str) -> None:
        for here in by_problem(case for case, row in self.gated.items() if row["status"] == "passed"):
            self.time_problem(here, mode)

    def time_problem(self, here: list[Case], mode: str) -> None:
        anchor, variables = anchor_of(here), self.variables(here)
        milliseconds = {case: self.gated[case]["details"]["launch_ms"] for case in here}
        members = [case for case in here if case != anchor]
        for needed, split in groups.environments(members, variables) or [({}, [])]:
            found = [split] if self.one_group else groups.groups(split, milliseconds, self.together)
            for group in found or [[]]:
                self.time_group([anchor, *group] if anchor else group, needed, mode)
        if not self.one_group:
            self.time_finals(here, anchor, mode)

    def time_finals(self, cases: list[Case], anchor: Case | None, mode: str) -> None:
        """Times the fastest of each series once more, together, where they were chosen or met no other before."""
        timed = {case: row for case in cases if (row := self.timed.get((case, mode))) and row["status"] == "passed"}
        chosen = (cases[0].problem, mode) not in self.moved  # only a run that has timed something new chooses again
        ranks = {case: rank(row, chosen=chosen) for case, row in timed.items()}
        for needed, group in groups.finals(cases, self.variables(cases), ranks):
            others = [case for case in timed if not case.is_peer and case not in group]
            if others or len({timed[case]["group"] for case in group}) > 1:
                self.time_group(sorted(group, key=lambda case: case != anchor), needed, mode, final=True)

    def time_replicate(self, number: int, mode: str, *, by_cupti: bool) -> None:
        """Times the final groups of every problem in one more process, on another board where there are several. Its
        rows have an environment row of their own."""
        todo: list[tuple[dict[str, str], list[Case], bool, bool]] = []
        for needed, group in self.final_groups(mode):
            stale = not all(self.session.has_replicate(case, mode, number) for case in group)
            check = by_cupti and (stale or any(not self.session.earlier(case, "cupti", "burst") for case in group))
            if stale or check:
                todo.append((needed, group, stale, check))
        if not todo or self.session.interrupts.requested:
            return
        self.compile(case for _, group, _, _ in todo for case in group)
        boards = environment.boards() if self.on == "gpu" else [{}]
        board = boards[(number - 1) % len(boards)]
        with self.session.process(number, board):
            for needed, group, stale, check in todo:
                if stale:
                    self.time_group(group, {**needed, **board}, mode, final=True, replicate=number)
                if check and not self.session.interrupts.requested:
                    self.check_with_cupti(group, {**needed, **board}, number)

    def final_groups(self, mode: str) -> list[tuple[dict[str, str], list[Case]]]:
        """What further processes time, with the variables that each group needs. Where a problem needed no final group
        its fastest, which were in one group anyway, are timed again; in an experiment of one group all of it."""
        timed = self.timed_in(mode)
        found: list[tuple[dict[str, str], list[Case]]] = []
        for here in by_problem(timed):
            ranks = {case: rank(timed[case]) for case in here}
            anchor, variables = anchor_of(here), self.variables(here)
            again = groups.environments(here, variables) if self.one_group else None
            for needed, group in again or groups.finals(here, variables, ranks):
                found.append((needed, sorted(group, key=[anchor].__contains__, reverse=True)))
        return found

    def timed_in(self, mode: str) -> dict[Case, Row]:
        return {case: row for (case, of), row in self.timed.items() if of == mode and row["status"] == "passed"}

    def variables(self, cases: Iterable[Case]) -> dict[Case, Mapping[str, str] | None]:
        """Case -> the environment variables that its process must have; None where any process will do."""
        return {case: self.loader.environment_of(case, self.on) for case in cases}

    def look_at_own(self) -> None:
        """Has CUPTI look what a user's kernels do beside their work: a stranger's call may keep some of it out of the
        timed interval, or of every call but the first."""
        for mine in by_problem(case for case in self.timed_in("burst") if case.kernel):
            for needed, group in groups.environments(mine, self.variables(mine)):
                if not self.session.interrupts.requested:
                    self.check_with_cupti(group, needed, 0)

    def check_with_cupti(self, group: list[Case], variables: Mapping[str, str], number: int) -> None:
        common = {"kind": "cupti", "mode": "burst", "group": self.session.new_group()}

        def write(case: Case, fields: Row) -> None:
            details = {**fields.get("details", {}), "replicate": number}
            self.session.write(case, {**common, **fields, "details": details})

        def ask(labels: Mapping[str, Case]) -> dict[str, Row]:
            return dict(self.session.worker(variables).call("cupti", labels, CUPTI_ROUNDS))

        members = list(group)
        answer = self.answered(members, ask, write)
        for case in members if answer else ():
            fields = answer[str(case)]
            if case.kernel and fields.get("check") == "cupti":
                # The time may be mostly gaps between small kernels: what a user's call hides counts alone.
                fields = {**fields, "status": "passed", "check": None, "reason": None}
            write(case, fields)

    def answered(
        self,
        members: list[Case],
        ask: Callable[[Mapping[str, Case]], dict[str, Row]],
        write: Callable[[Case, Row], None],
    ) -> dict[str, Row]:
        """A worker's answer about the members of a group, by label; empty after Ctrl-C and without members. A case that
        ends the worker gets its row and leaves `members`, and the others are asked for again."""
        while members:
            labels = {str(case): case for case in members}
            try:
                return ask(labels)
            except KeyboardInterrupt:
                for case in members:
                    write(case, {"status": "interrupted", "reason": "stopped while the group was timed"})
                break
            except Failed as failure:
                for case in [labels[failure.label]] if failure.label in labels else list(members):
                    members.remove(case)
                    write(case, failure.fields)
        return {}

    def time_group(
        self,
        group: list[Case],
        variables: Mapping[str, str],
        mode: str,
        *,
        final: bool = False,
        replicate: int = 0,
    ) -> None:
        """One interleaved group.

        A resumed group that is not complete is timed again as a whole, or its rows would not have met each other.
        Rows of a final group say so in their details, and which replicate they are of.
        """
        earlier = {
            case: row for case in group if (row := self.session.earlier(case, self.kind, mode)) and not replicate
        }
        if final:
            earlier = {case: row for case, row in earlier.items() if is_final(row)}
        self.timed |= {(case, mode): row for case, row in earlier.items()}
        if len(earlier) == len(group) or self.session.interrupts.requested:
            return
        if not final:
            self.moved.add((group[0].problem, mode))
        members = [case for case in group if case not in earlier or earlier[case]["status"] in MEASURED]
        common = {"kind": self.kind, "mode": mode, "group": self.session.new_group()}
        usual = IDLE if mode == "idle" else {"target": FINAL_TARGET} if final else {}
        options = {**usual, **self.timing_options, "mode": mode}

        def write(case: Case, fields: Row) -> None:
            if fields["status"] == "unsupported" and self.session.is_reusable(case, self.kind, mode):
                # Its gate was passed elsewhere, but it cannot be loaded here: what was timed there is reused.
                self.timed.pop((case, mode), None)
                return
            if final:
                which = {"final": True, **({"replicate": replicate} if replicate else {})}
                fields = {**fields, "details": {**fields.get("details", {}), **which}}
            row = self.session.write(case, {**common, **fields})
            if not replicate:
                self.timed[case, mode] = row

        def ask(labels: Mapping[str, Case]) -> dict[str, Row]:
            try:
                return dict(self.session.worker(variables).call("time", labels, next(iter(labels)), options))
            except Failed as failure:
                if failure.stage != "launch" or options.get("queue") == 1:
                    raise
                # Several launches were under way, and a host that waits at one may wait for another.
                options["queue"] = 1
                return ask(labels)

        limit, before = options.get("limit", AGAIN_LIMIT), None
        while answer := self.answered(members, ask, write):
            again = _again(answer, limit, before)
            if not again["flagged"] or before is not None:
                for case, fields in self.timing_fields({str(case): case for case in members}, answer, again):
                    write(case, fields)
                return
            before, options["target"] = again["difference"], limit / 4

    def timing_fields(
        self, labels: Mapping[str, Case], answer: Mapping[str, Row], again: Row
    ) -> list[tuple[Case, Row]]:
        """The worker's answer, with what concerns the group as a whole and what only the runner can tell."""
        first = next(iter(labels))
        details: Row = {"again": again}
        anchor = operators.of(labels[first].problem).anchor
        if self.kind == "timing" and anchor and labels[first].backend != anchor:  # tuning times no peers
            details["anchor"] = f"no {anchor} in this group: {first} takes its place"
        rows = []
        for name, case in labels.items():
            gate, fields = self.gated[case], dict(answer[name])
            hidden = fields.pop("launch_hidden")
            if fields["status"] in ("passed", "not_converged"):
                fields |= self.implausible(case, gate.get("mma"), median_ms(fields))
            if fields["status"] == "passed" and again["flagged"]:
                fields |= {
                    "status": "not_converged",
                    "reason": f"two series of {first} in this group differ by {again['difference']:.2%}, "
                    f"expected at most {again['limit']:.2%}, and by {again['before']:.2%} when it was timed before",
                }
            fields |= {field: gate.get(field) for field in ("mma", "compiler", "compile_s")}
            fields |= {"order": list(answer), "details": {**details, "launch_hidden": hidden}}
            if label := gate.get("details", {}).get("label"):
                fields["details"]["label"] = label
            rows.append((case, fields))
        return rows

    def implausible(self, case: Case, mma: str | None, median_ms: float) -> Row:
        """Status, check and reason when the time is below what the GPU can do, else nothing."""
        bound = groups.roofline_ms(case.problem, mma, self.session.peaks) if self.on == "gpu" else None
        if bound is None or median_ms >= groups.IMPOSSIBLE * bound:
            return {}
        reason = f"median {median_ms:.4f} ms, but this GPU needs at least {bound:.4f} ms for this problem"
        return {"status": "implausible", "check": "roofline", "reason": reason}

    # Twins that are another's program

    def repeat_same_programs(self) -> None:
        """Writes the rows of twins that re-export another's program: it is measured once, and its rows are repeated
        under their names."""
        for case in self.todo:
            twin = self.same_program(case)
            if twin is None or case in self.gated:  # its own program, or declined
                continue
            while (further := self.same_program(twin)) is not None:
                twin = further
            rows = [self.gated.get(twin), *(row for (timed, _), row in self.timed.items() if timed == twin)]
            for row in rows:
                if row is None or "kind" not in row:  # interrupted before, or the unwritten gate of a tuned cell
                    continue
                earlier = self.session.earlier(case, results.what(row), row.get("mode"))
                if earlier and (results.what(row) != "gate" or self.covers(case, earlier)):
                    continue
                measured = {name: value for name, value in row.items() if name not in results.KEY or name == "mode"}
                del measured["schema"], measured["time"]
                details = {**row.get("details", {}), "same_program": twin.technique}
                self.session.write(case, {**measured, "kind": results.what(row), "details": details})


def by_problem(cases: Iterable[Case]) -> list[list[Case]]:
    found: dict[Problem, list[Case]] = {}
    for case in cases:
        found.setdefault(case.problem, []).append(case)
    return list(found.values())


def rank(row: Row, *, chosen: bool = True) -> tuple[bool, float]:
    """The order in which a final group takes kernels: by their median in milliseconds; those of a final group before
    come first unless the choice is made anew."""
    return chosen and not is_final(row), median_ms(row)


def anchor_of(cases: Sequence[Case]) -> Case | None:
    """The peer that is in every group of these cases: the operator's anchor, or the first where that is not among
    them."""
    peers = {case.backend: case for case in cases if case.is_peer}
    return peers.get(operators.of(cases[0].problem).anchor or "") or next(iter(peers.values()), None)


def _again(answer: Mapping[str, Row], limit: float, before: float | None) -> Row:
    """The A/A pair of a timed group. `before`: by how much it differed when the group was timed for the first time."""
    first = next(iter(answer))
    once, again = (median_ms(answer[label]) for label in (first, f"{first} again"))
    difference = abs(once / again - 1)
    limit = max(limit, 2 * TICK_MS / again)
    pair = {"of": first, "difference": difference, "limit": limit, "flagged": difference > limit}
    return pair if before is None else {**pair, "before": before}
