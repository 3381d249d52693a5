"""What a claim of the expressibility matrix is: a grade, and the compilations that prove it. Standard library only.

A cell is a technique in a dialect. It has one claim, or several that hold in different versions. A claim names proofs;
each compiles two programs, the subject and its control, and looks for one thing in both: it must be in one and not in
the other. So a proof of absence has a control in which the same detector finds the thing, and a proof of presence one
in which it does not; exchanged, they refute the claim.

    swizzle_box       the box's row width chooses the swizzle         subject: found     control: not found
    swizzle_pointers  rows of 32 bytes or more are always swizzled    subject: not found control: found
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from harness import operators
from harness.build.tritons import RIVALS
from harness.catalog.techniques import RELEASES
from harness.operators.protocol import Problem

GRADES = {
    "direct": "the source says it",
    "hint": "the source asks, the compiler decides",
    "automatic": "the compiler does it unasked and offers no off switch",
    "hatch": "only outside the language: inline PTX, an edited IR, a hook on its stages, its environment variables",
    "inexpressible": "none of the forms tried compiles to it",
}
FAULTS = {
    "fails": "the source says it, and this compiler errors or aborts",
    "dropped": "accepted and ignored",
    "wrong": "runs, with a wrong result",
}
"""Beside a grade: a bug of a compiler is no limit of its language."""

VERSIONS = {
    "triton": RELEASES,
    "gluon": RELEASES,
    "tlx": ("3.8.0",),
    "cuda": ("",),
    "cute": ("4.8.1",),
    "cutile": ("1.7.0",),
}
"""Dialect -> the versions of its column. CUDA's compiler is the one installed: its version is in the row."""

DIALECTS = {"triton": "core Triton", "gluon": "Gluon", "tlx": "TLX", "cuda": "CUDA"}
"""Dialect, as in a row's backend -> the head of its column. TLX: Meta's extensions, a plugin for the stock Triton 3.8.0
(`pip install triton-utlx`)."""

TEXTS = {
    "ttgir": "Triton's IR after its passes for the GPU",
    "ptx": "PTX",
    "sass": "machine code",
    "words": "what the compiler said, its error included",
    "source": "the program itself",
    "facts": "lines such as `shared 8192`: shared memory in bytes, warps, registers and stack bytes of a thread",
}
"""What a detector reads."""


HATCHES = r"inline_asm|ir_override|add_stages_inspection_hook|DISABLE_MMA_V3|edit="
"""How a source reaches past its language, when `word` is one of them."""


@dataclass(frozen=True)
class Probe:
    """triton_kernels/probes/<name>.py, or <name>.py of a rival, in one of its forms."""

    name: str
    form: str = "plain"
    version: str | None = None
    """Of its own; None for the one under examination."""
    dialect: str | None = None
    """tlx where the plugin must be loaded, one of RIVALS; None elsewhere."""

    @property
    def file(self) -> str:
        if self.dialect not in RIVALS:
            return f"triton_kernels/probes/{self.name}.py"
        places = [operator.folder / "rivals" / self.dialect / f"{self.name}.py" for operator in operators.every()]
        here = next((place for place in places if place.is_file()), places[0])
        return here.relative_to(operators.root(here.parents[2].name)).as_posix()

    @property
    def label(self) -> str:
        return f"{self.name}:{self.form}" + (f"@{self.version}" if self.version else "")


def forms(probe: str, subject: str, control: str, dialect: str | None = None) -> tuple[Probe, Probe]:
    """The two programs of a proof, where they are forms of one probe."""
    return Probe(probe, subject, dialect=dialect), Probe(probe, control, dialect=dialect)


@dataclass(frozen=True)
class Twin:
    """A kernel of the ladders at `tile` (a slug such as 64x64-s2-w4), or at its reference tile. Each operator has a
    subclass, which says on which problem.

    `backend`: cuda, triton, triton_native, gluon or tlx. `version` and `dialect` as in a Probe.
    """

    technique: str
    backend: str
    tile: str | None = None
    arch: str = "sm_90a"
    version: str | None = None
    dialect: str | None = None

    @property
    def problem(self) -> Problem:
        """What it is compiled for."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """In words."""
        return self._label(f"{self.problem.operator}/{self.technique}")

    def _label(self, name: str) -> str:
        tile = f" {self.tile}" if self.tile else ""
        version = f"@{self.version}" if self.version else ""
        return f"{self.backend}{version} {name}{tile} {self.arch}"


@dataclass(frozen=True)
class CudaProbe:
    """cuda_kernels/probes/<name>.cu, compiled for `arch`."""

    name: str
    arch: str = "sm_90a"

    @property
    def file(self) -> str:
        return f"cuda_kernels/probes/{self.name}.cu"

    @property
    def label(self) -> str:
        return f"cuda {self.name} {self.arch}"


Program = Probe | Twin | CudaProbe


@dataclass(frozen=True)
class Detector:
    """Finds a thing in one text of a compiled program: `pattern`, a regular expression, `least` times or more.

    `within`: searches only between a line that matches the first of two patterns and the next line that matches the
    second. Of several such pairs, the one with the most matches counts. `in_loop`: searches only the loops of machine
    code, in the order of an iteration, from the target of the branch to the branch. An assembler rotates loops, so
    reading from top to bottom would mislead. `order`: first reduces the text to the matches of this expression, one
    space apart, so that `pattern` describes an order.
    """

    text: str
    pattern: str
    least: int = 1
    within: tuple[str, str] | None = None
    in_loop: bool = False
    order: str | None = None


@dataclass(frozen=True)
class Proof:
    """`detector` finds the thing in the subject and not in the control, or, with `seen` False, the reverse."""

    name: str
    """Of its own among all proofs: what a row is called and what a reader asks for."""
    shows: str
    """One sentence: what is seen. Nothing depends on it: it may be reworded without a new row."""
    subject: Program
    control: Program
    detector: Detector
    seen: bool = True
    obtained: bool | None = None
    """Whether this subject gets what the claim is about. By default: when something is seen that is no error."""

    @property
    def obtains(self) -> bool:
        return self.seen and self.detector.text != "words" if self.obtained is None else self.obtained


@dataclass(frozen=True)
class Claim:
    """One grade of a technique in a dialect, for `versions` (all of its column's where none are named)."""

    technique: str
    """A rung of the registry, or a name of `cells.EXTRA`; of a rival, one of `rivals.ASKED`."""
    dialect: str
    grade: str
    says: str
    proofs: tuple[Proof, ...]
    fault: str | None = None
    versions: tuple[str, ...] = ()
    gates: str = ""
    """The experiment whose gates on a GPU tell more: whether the result is right, which no compiler says."""
    word: str = ""
    """What the source says to get it (a regular expression): in every subject that gets it. Empty for automatic."""

    def __post_init__(self) -> None:
        fields: dict[str, Collection[str]] = {"dialect": VERSIONS, "grade": GRADES, "fault": FAULTS}
        for name, known in fields.items():
            got = getattr(self, name)
            if got not in known and (name, got) != ("fault", None):
                raise ValueError(f"{name}: got {got!r}, expected one of {', '.join(known)}")
        if unknown := set(self.versions) - set(VERSIONS[self.dialect]):
            raise ValueError(f"versions: got {sorted(unknown)}, expected some of {VERSIONS[self.dialect]}")

    @property
    def holds_for(self) -> tuple[str, ...]:
        return self.versions or VERSIONS[self.dialect]

    @property
    def cell(self) -> tuple[str, str]:
        return self.technique, self.dialect


def claim(dialect: str, technique: str, grade: str, says: str, *proofs: Proof, **rest: Any) -> Claim:
    """A Claim by these proofs; `rest`: its other fields."""
    return Claim(technique, dialect, grade, says, proofs, **rest)


in_triton, in_gluon, in_tlx = (partial(claim, dialect) for dialect in ("triton", "gluon", "tlx"))


def by_pair(
    technique: str,
    dialect: str,
    says: str,
    subject: Program,
    control: Program,
    detector: Detector,
    word: str = "",
    *,
    seen: bool = True,
) -> Claim:
    """A claim graded direct, by one proof whose subject gets what the claim is about."""
    name = f"{technique} in {DIALECTS[dialect]}"
    proof = Proof(name, says, subject, control, detector, seen, obtained=True)
    return claim(dialect, technique, "direct", says, proof, word=word)


def inherited(claims: Iterable[Claim], own: Collection[str] = ()) -> tuple[Claim, ...]:
    """TLX has every word of core Triton: its claims for TLX's release, compiled with the plugin, but for techniques of
    which TLX has claims of its `own`. What core Triton cannot say is no claim about TLX: that takes attempts in its own
    words."""
    (version,) = VERSIONS["tlx"]
    of_triton = (claim for claim in claims if claim.dialect == "triton" and version in claim.holds_for)
    return tuple(
        replace(claim, dialect="tlx", versions=(), proofs=tuple(with_plugin(proof) for proof in claim.proofs))
        for claim in of_triton
        if claim.technique not in own and claim.grade != "inexpressible"
    )


def with_plugin(proof: Proof) -> Proof:
    return replace(
        proof, name=f"{proof.name}, with TLX", subject=_loaded(proof.subject), control=_loaded(proof.control)
    )


def _loaded(program: Program) -> Program:
    if isinstance(program, CudaProbe) or program.version is not None:
        return program
    return replace(program, dialect="tlx")
