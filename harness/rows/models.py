"""What a row of each kind says, for rows.schema, which imports this with the first row: pydantic loads slowly.

A field that does not apply is absent; None is a value like any other and is refused where the type does not have it.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model
from pydantic_core import PydanticCustomError

from harness.rows import results

ABSENT: Any = None
"""Default of what may be missing; defaults are not validated."""
PRINTED = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"


def _text(pattern: str, expected: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def ask(value: str) -> str:
        if not compiled.fullmatch(value):
            raise PydanticCustomError("text", "{expected}", {"expected": expected})
        return value

    return AfterValidator(ask)


def _one_of(*names: str) -> AfterValidator:
    return _text("|".join(names), f"one of {', '.join(names)}")


Line = Annotated[str, _text(PRINTED + "{1,1000}", "one line of text, without control characters")]
LongLine = Annotated[str, _text(PRINTED + "+", "one line of text, without control characters")]
Words = Annotated[str, _text("(?s).+", "text")]
Name = Annotated[str, _text("[a-z][a-z0-9_]*", "a name of small letters, digits and _")]
Hash = Annotated[str, _text("[0-9a-f]{64}", "a SHA-256 in hexadecimal")]
Backend = Annotated[str, _text(r"[a-z][a-z0-9_]*(@[A-Za-z0-9][A-Za-z0-9.+-]{0,99})?", "a name such as cuda or fa3@2.8")]
Arch = Annotated[str, _text(r"sm_\d{2,3}[a-z]?", "an architecture such as sm_90a")]
GateId = Annotated[str, _text(r"version \d{1,6}|[0-9a-f]{12}", 'a version such as "version 1"')]
GpuName = Annotated[str, _text("[ -~]{1,100}", "a name of at most 100 letters, digits and signs")]
Commit = Annotated[str, _text("[0-9a-f]{7,64}", "a commit in hexadecimal")]
Status = Annotated[str, _one_of(*results.STATUSES)]
Tool = Annotated[str, _one_of(*results.SANITIZERS)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Sample = Annotated[float, Field(ge=1e-6, le=1e9)]
"""Milliseconds: a nanosecond to eleven days."""


class Part(BaseModel):
    """An object; what it does not declare may be there too."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, protected_namespaces=())


class LoopCounts(Part):
    exponentials: Count
    maxima: Count
    shuffles: Count
    conversions: Count


class MainLoop(Part):
    """What harness.build.instruction_order reads."""

    instructions: Count
    products: Count
    serialized: bool
    local_memory: Count
    all: LoopCounts
    under_products: LoopCounts
    in_lock: LoopCounts | None
    sequence: LongLine


class Code(Part):
    registers: AtLeastOne
    spill_bytes: Count
    smem_bytes: Count
    sass_sha256: Hash
    census: dict[Line, Count] = ABSENT
    main_loop: MainLoop = ABSENT
    setmaxnreg: list[Count] = ABSENT
    remarks: list[Line] = ABSENT


class Compiler(Part):
    front_end: Line
    ptxas: Line = ABSENT
    flags: str = ABSENT


class Clocks(Part):
    sm_mhz: Share | None = ABSENT
    power_w: Share | None = ABSENT
    throttle: list[Line] | None = ABSENT


class Again(Part):
    """The A/A pair of a group."""

    of: Line
    difference: float
    flagged: bool
    limit: float | None = ABSENT
    before: float | None = ABSENT


class Details(Part):
    again: Again = ABSENT
    diagnosis: list[str] = ABSENT
    final: bool = ABSENT
    label: str | None = ABSENT
    launch_hidden: bool | None = ABSENT
    launch_ms: Share = ABSENT
    log: str = ABSENT
    padded: bool = ABSENT
    planted: Name = ABSENT
    replicate: Count = ABSENT
    same_program: Name = ABSENT
    sharing: Count = ABSENT
    varied: list[Name] = ABSENT
    stage: Line = ABSENT
    findings: list[str] = ABSENT
    found: Count = ABSENT
    cupti_ms: Positive = ABSENT
    events_ms: Positive = ABSENT
    gap_ms: float = ABSENT
    difference: float = ABSENT


class Row(Part):
    """What a field holds in a row of any kind."""

    version: Annotated[int, Field(ge=1, alias="schema")] = ABSENT
    kind: Annotated[str, _one_of(*results.KINDS)]
    purpose: Annotated[str, _one_of(*results.PURPOSES)] = ABSENT
    on: Literal["gpu", "cpu"] = ABSENT
    operator: Name = ABSENT
    experiment: Name = ABSENT
    assembler: Literal["shared"] = ABSENT
    technique: Name = ABSENT
    backend: Backend = ABSENT
    kernel: Line = ABSENT
    arch: Arch = ABSENT
    mma: Literal["fma", "mma_sync", "wgmma"] = ABSENT
    source_sha256: Hash = ABSENT
    compiler: Compiler = ABSENT
    status: Status = ABSENT
    reason: Words = ABSENT
    check: Line = ABSENT
    gate: GateId = ABSENT
    numerics: dict[Line, dict[Line, Share | None]] = ABSENT
    samples_ms: list[Sample] = ABSENT
    mode: Literal["burst", "sustained", "idle"] = ABSENT
    per_clock: dict[Line, list[Positive]] = ABSENT
    tflops: list[Positive] = ABSENT
    clock_ghz: Annotated[list[Annotated[float, Field(gt=0, le=10)]], Field(min_length=1)] = ABSENT
    tool: Tool = ABSENT
    roof: Name = ABSENT
    proof: Line = ABSENT
    group: Line = ABSENT
    order: list[Line] = ABSENT
    clocks: Clocks = ABSENT
    code: Code = ABSENT
    sass_sha256: Hash = ABSENT
    compile_s: Share = ABSENT
    call_us: dict[Line, Positive] = ABSENT
    environment: Line = ABSENT
    id: Line = ABSENT
    details: Details = ABSENT


class ProofDetails(Details):
    verdict: Literal["proven", "refuted", "broken"]
    lines: list[str] = ABSENT
    control_lines: list[str] = ABSENT
    seen: bool = ABSENT


class Site(Part):
    """What one instruction of a kernel did to memory, as cuda_kernels/cpu_library.py describes it."""

    file: Line
    line: Count
    mnemonic: Line
    executions: AtLeastOne
    bytes: Count = ABSENT
    sectors: Count = ABSENT
    least_sectors: Count = ABSENT


Addresses = Annotated[list[Count | None], Field(min_length=32, max_length=32)]


class AddressedSite(Site):
    """Of lanes that address shared memory."""

    example_addresses: Addresses
    width: Literal[1, 2, 4, 8, 16]
    wavefronts: Count
    bank_conflicts: Count


class WaitingSite(Site):
    bytes_in_flight: Count
    bytes_left: Count
    groups_in_flight: Count
    groups_left: Count


class WaitingAddressedSite(WaitingSite, AddressedSite):
    pass


def _site(value: Any) -> str:
    fields = value if isinstance(value, dict) else {}
    addressed = str(fields.get("mnemonic")).startswith("ldmatrix") or "example_addresses" in fields
    waiting = any(name in fields for name in ("bytes_in_flight", "bytes_left", "groups_in_flight", "groups_left"))
    return "#waiting" * waiting + "#addressed" * addressed or "#"


AnySite = Annotated[
    Annotated[Site, Tag("#")]
    | Annotated[AddressedSite, Tag("#addressed")]
    | Annotated[WaitingSite, Tag("#waiting")]
    | Annotated[WaitingAddressedSite, Tag("#waiting#addressed")],
    Discriminator(_site),
]


class Totals(Part):
    bank_conflicts: Count
    wavefronts: Count
    sectors: Count
    least_sectors: Count
    bytes: dict[Line, Count]
    executions: dict[Line, Count]


class CounterDetails(Details):
    metrics: dict[Line, float | None] = ABSENT
    totals: dict[Line, float] = ABSENT


class MemoryDetails(Details):
    sites: list[AnySite] = ABSENT
    totals: Totals = ABSENT
    ncu: dict[Line, Count] = ABSENT


def _judged(of: dict[str, float | None]) -> dict[str, float | None]:
    if None in (of.get("max_abs"), of.get("yardstick")) or not of.get("floor"):
        raise PydanticCustomError("judged", "max_abs, yardstick and a positive floor")
    return of


Judged = Annotated[dict[Line, Share | None], AfterValidator(_judged)]
"""Numbers of a distribution that passed."""


class Gpu(Part):
    name: GpuName
    capability: Annotated[list[Count], Field(min_length=2)] = ABSENT
    uuid_sha256: Line = ABSENT
    sm_count: AtLeastOne = ABSENT
    driver: Line | None = ABSENT
    max_sm_mhz: Share | None = ABSENT
    power_limit_w: Share | None = ABSENT


class Git(Part):
    sha: Commit | None = ABSENT
    dirty: bool | None = ABSENT


class Environment(Part):
    gpu: Gpu | None
    peaks: dict[Line, Share | None] | None = ABSENT
    software: dict[Line, int | Line | None] = ABSENT
    toolchain: dict[Line, Line | None] = ABSENT
    variables: dict[Line, str] = ABSENT
    git: Git = ABSENT
    argv: list[str] = ABSENT
    warnings: list[str] = ABSENT


def _needing(of: type[Part], **fields: Any) -> type[Any]:
    """The model with fields that must be there."""
    needed: dict[str, Any] = {name: (kind, ...) for name, kind in fields.items()}
    return create_model(of.__name__, __base__=of, **needed)


_MADE = _needing(
    Row, on=Literal["gpu", "cpu"], operator=Name, experiment=Name, environment=Line, time=str, backend=Backend
)
_OF_PROBLEM = _needing(_MADE, problem=Any)
_TIMED = _needing(_OF_PROBLEM, samples_ms=Annotated[list[Sample], Field(min_length=1)])
_COUNTERS = _needing(_OF_PROBLEM, technique=Name)
_CUPTI = _needing(Details, cupti_ms=Positive, events_ms=Positive, gap_ms=float, difference=float)
_COUNTED = _needing(CounterDetails, metrics=Annotated[dict[Line, float | None], Field(min_length=1)])

OF: dict[str, type[Part]] = {
    **dict.fromkeys(("timing", "tune", "cupti", "gate", "code"), _OF_PROBLEM),
    "environment": _needing(Row, id=Line, details=Environment, time=str),
    "roof": _needing(_MADE, roof=Name),
    "proof": _needing(_MADE, technique=Name, proof=Line, details=ProofDetails),
    "sanitizer": _needing(_OF_PROBLEM, technique=Name, tool=Tool),
    "counters": create_model("Row", __base__=_COUNTERS, details=(CounterDetails, ABSENT)),
    "memory": create_model("Row", __base__=_COUNTERS, details=(MemoryDetails, ABSENT)),
}
"""results.what -> what such a row says."""
PASSED: dict[str, type[Part]] = OF | {
    "timing": _TIMED,
    "cupti": _needing(_TIMED, details=_CUPTI),
    "gate": _needing(_OF_PROBLEM, numerics=Annotated[dict[Line, Judged], Field(min_length=1)]),
    "code": _needing(_OF_PROBLEM, code=Code),
    "counters": _needing(_COUNTERS, details=_COUNTED),
    "memory": _needing(_COUNTERS, details=_needing(MemoryDetails, sites=list[AnySite], totals=Totals)),
}
"""The same of rows that passed."""
