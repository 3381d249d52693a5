"""Gluon kernels: each is a small step from its parent, and its compiler and the assembler leave of it what the source
states or asks for: layouts, barriers, registers, and the order of a main loop.

`make test` reads the rows of what is recorded, of this source and by this compiler, and compiles the rest;
`make test-full` compiles all of it. They need a GPU to run: the gates of `correctness` judge them there.
"""

import importlib
import re
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness import build
from harness.build import instruction_order, machine_code, tritons
from harness.catalog import sources, techniques
from harness.catalog.cases import Case, of_experiment, of_grids
from harness.catalog.entries import NamedExperiment, Technique, Tile
from harness.expressibility import programs
from harness.expressibility.child import disassembled
from harness.inspection import survey
from harness.operators.attention.claims.twin import Twin
from harness.operators.attention.problem import Problem
from tests.support import chosen, proven
from tests.support.programs import changed_lines, normalized

pytestmark = pytest.mark.spread

STATED = [technique for technique in techniques.TECHNIQUES if sources.has_series("gluon", technique.path)]
REPEATED = [one for one in STATED if sources.same_program(one.path, "gluon")]
SQUARE = Tile(128, 128, 2, 8)
HERE = [  # others are of newer Tritons
    one
    for one in STATED
    if one not in REPEATED
    if techniques.unsupported(one, "gluon", Problem.square(4, 16, 4096, 128), SQUARE) is None or one.ladder != "hopper"
]
AMPERE, TMA, HOPPER = ([one.name for one in HERE if one.ladder == ladder] for ladder in ("ampere", "tma", "hopper"))
PINNED = HOPPER[HOPPER.index("pinned_maxima") :]
LONGEST_STEP = {"ampere": 40, "tma": 150, "hopper": 200}
MASKS = {"full": False, "causal": True}
SMALL = Problem(2, 4, 2, 256, 256, 64, "bf16", True), Tile(64, 64)
SWIZZLES = {name: "0" if name == "tma_loads" else "128" for name in TMA}
"""Bytes that a descriptor swizzles over."""
WAITED_BY = {
    "tma_loads": {"bar.sync 0"},
    "tma_swizzle": {"bar.sync 0"},
    "mbarrier_ring": {"bar.sync 0"},
    "warp_specialized": {"bar.sync 0, 256"},
    "setmaxnreg_consumers": {"bar.sync 0, 128", "bar.sync 2, 128"},
    "softmax_lock": {"bar.sync 0, 128", "bar.sync 2, 128"},
}
"""The barriers between products: of the block, of the eight consumer warps, of each of two warpgroups."""
ROUND_TRIPS = {"lazy_rescale_wgmma": 2, "early_rescale": 3}
"""Loads and stores of a value or two that do not fit beside what a vote needs."""


def cell(name: str, causal: bool = False, head_dim: int = 128, tile: Tile | None = None) -> tuple[str, Problem, Tile]:
    of_rung = SQUARE if name in HOPPER else techniques.reference_tile(techniques.of_qualified(name), head_dim)
    return name, Problem.square(4, 16, 4096, head_dim, causal=causal), tile or of_rung


def module(name: str) -> Any:
    path = sources.kernel_file("gluon", techniques.of_qualified(name).path).relative_to(sources.ROOT)
    return importlib.import_module(".".join(path.with_suffix("").parts))


@cache
def compiled(name: str, problem: Problem, tile: Tile, arch: str = "sm_90a") -> Any:
    """Triton's compiled kernel: its texts in `asm`."""
    assert techniques.unsupported(techniques.of_qualified(name), "gluon", problem, tile) is None
    return module(name).twin.specialize(problem, None, tile, arch).compile()


@cache
def compiled_code(name: str, problem: Problem, tile: Tile, arch: str = "sm_90a") -> dict[str, Any]:
    return machine_code.read_triton(compiled(name, problem, tile, arch))


def recorded_code(name: str, problem: Problem, tile: Tile) -> dict[str, Any]:
    """What a row tells; where none does, what is compiled."""
    row = proven.code((Case("inspect", name, "gluon", problem, tile), survey.MEASURED))
    return row or compiled_code(name, problem, tile)


Code = Callable[..., dict[str, Any]]


@pytest.fixture(params=["recorded", pytest.param("compiled", marks=pytest.mark.full)])
def code(request: pytest.FixtureRequest) -> Code:
    """The `code` of a row of a rung: code(name, causal, head_dim, tile)."""
    of = compiled_code if request.param == "compiled" else recorded_code
    return lambda name, *options, **more: of(*cell(name, *options, **more))


def small(name: str, arch: str = "sm_90a") -> str:
    ttgir: str = compiled(name, *SMALL, arch).asm["ttgir"]
    return ttgir


def census(name: str) -> dict[str, int]:
    found: dict[str, int] = compiled_code(name, *SMALL)["census"]
    return found


def is_proven(name: str, *_: Any) -> bool:
    """Does a row have the machine code of this rung, of today's source by the compilers that are here?"""
    _, problem, tile = cell(name)
    return proven.compiled((Case("inspect", name, "gluon", problem, tile), survey.MEASURED))


def before(technique: Technique) -> Technique | None:
    """The program of the same ladder that it builds on."""
    for name in technique.builds_on:
        parent = techniques.of_qualified(name)
        if parent in STATED and parent.ladder == technique.ladder:
            return techniques.of_qualified(sources.same_program(parent.path, "gluon") or name)
    return None


def test_every_file_is_a_rung_and_is_its_series() -> None:
    folder = sources.ROOT / "triton_kernels" / "attention" / "gluon"
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("[!_]*.py")}
    assert files == {f"{technique.ladder}/{technique.name}" for technique in STATED}
    scalar = techniques.get("attention/scalar")
    assert not sources.has_series("gluon", scalar.path)
    assert all(sources.has_series(twin, scalar.path) for twin in techniques.TWINS)


def test_only_what_is_stated_is_asked_for() -> None:
    names, problem = ("scalar", "xor_swizzle"), SMALL[0]
    experiment = NamedExperiment(
        name="ladder", problems=(problem,), techniques=names, backends=techniques.SERIES, peers=()
    )
    asked = [(case.technique, case.backend) for case in of_experiment(experiment)]
    assert ("xor_swizzle", "gluon") in asked
    assert ("scalar", "gluon") not in asked
    assert ("scalar", "triton_native") in asked
    read = [case.technique for case, _ in survey.cells(names, ("gluon",), [problem], ("sm_90a",))]
    assert read == ["xor_swizzle"]
    assert {case.technique for case in of_grids(names, ("gluon",), [problem])} == {"xor_swizzle"}


def test_a_step_from_the_parent_is_small() -> None:
    """The three layouts of shared memory differ in one line of code."""
    for technique in STATED:
        parent = before(technique)
        if parent is None:
            assert technique == next(one for one in STATED if one.ladder == technique.ladder)
        elif technique not in REPEATED:
            changed = changed_lines(parent, technique)
            assert 2 <= changed < LONGEST_STEP[technique.ladder], technique.name
            assert changed == 2 or technique.name not in AMPERE or technique.name == "cp_async_pipeline"


@pytest.mark.parametrize("names", [AMPERE, TMA, HOPPER], ids=["ampere", "tma", "hopper"])
def test_no_program_is_secretly_an_earlier_one(names: list[str], code: Code) -> None:
    assert len({code(name, causal=True)["sass_sha256"] for name in names}) == len(names) > 3


def test_a_renamed_copy_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = sources.kernel_file("gluon", "attention/ampere/xor_swizzle").read_text()
    (tmp_path / "gluon_copy.py").write_text(
        source.replace("xor_swizzle", "another_name").replace("new_max", "larger_max")
    )
    monkeypatch.syspath_prepend(tmp_path)
    copy = importlib.import_module("gluon_copy").twin.specialize(SMALL[0], None, SMALL[1], "sm_90a").compile()
    assert machine_code.read_triton(copy)["sass_sha256"] == compiled_code("xor_swizzle", *SMALL)["sass_sha256"]
    assert normalized(copy.asm["ttgir"]) == normalized(small("xor_swizzle"))


@pytest.mark.parametrize("technique", REPEATED, ids=lambda one: one.name)
def test_a_re_export_says_whose_program_it_is(technique: Technique) -> None:
    program = sources.same_program(technique.path, "gluon")
    assert f"the same program as {program}" in (module(technique.name).__doc__ or "")


@pytest.mark.parametrize(
    ("name", "backend", "tile", "reason"),
    [
        ("xor_swizzle", "gluon", Tile(64, 64, 1, 8), "multiple of 16 * warps"),
        ("xor_swizzle", "gluon", Tile(64, 64, 2), "stages must be 1"),
        *(
            ("cluster_multicast", backend, SQUARE, "Gluon has multicast from 3.7 on, and a barrier that counts the")
            for backend in ("gluon", "gluon@3.6.0", "gluon@3.7.1")
        ),
        ("cluster_multicast", "gluon@3.8.0", SQUARE, "full attention only"),
        ("cluster_multicast", "gluon@3.9.0", SQUARE, "full attention only"),
    ],
)
def test_what_it_cannot_hold_is_declined(name: str, backend: str, tile: Tile, reason: str) -> None:
    problem = Problem.square(4, 16, 4096, 128, causal=reason == "full attention only")
    assert reason in str(techniques.unsupported(techniques.of_qualified(name), backend, problem, tile))


@pytest.mark.parametrize("backend", ["gluon@3.8.0", "gluon@3.9.0"])
def test_newer_tritons_have_multicast(backend: str) -> None:
    problem = Problem.square(4, 16, 4096, 128)
    assert techniques.unsupported(techniques.get("attention/cluster_multicast"), backend, problem, SQUARE) is None


def test_without_a_gpu_it_is_declined_with_the_reason() -> None:
    with pytest.raises(build.Unsupported, match="interpreter does not run Gluon"):
        build.load(Case("test", "xor_swizzle", "gluon", *SMALL), "cpu")


@pytest.mark.parametrize(
    "arch", ["sm_90a", *(pytest.param(arch, marks=pytest.mark.full) for arch in ("sm_80", "sm_120a"))]
)
def test_the_layout_that_is_stated_is_the_one_that_is_compiled(arch: str) -> None:
    layouts = {
        "direct_rescale": "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 1,",
        "padded_rows": "padded_shared<[64:+8]",
        "xor_swizzle": "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8,",
        "cp_async_pipeline": "swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8,",
    }
    assert set(layouts) == set(AMPERE)
    for name, layout in layouts.items():
        assert layout in small(name, arch), name
        assert compiled_code(name, *SMALL, arch)["census"]["HMMA"] > 0


def test_ldmatrix_is_derived_from_swizzled_layouts_alone() -> None:
    """With bank conflicts or without them: one number of the layout. From a padded one it is not derived."""
    straight, swizzled, padded = (census(name) for name in ("direct_rescale", "xor_swizzle", "padded_rows"))
    assert straight["LDSM"] == swizzled["LDSM"] > 0
    assert straight["LDSM.T"] == swizzled["LDSM.T"] > 0
    assert not padded["LDSM"]
    assert not padded["LDSM.T"]
    assert padded["LDS.16"] > 0


def test_copies_run_under_the_products_with_one_buffer_of_each() -> None:
    """Two waits a step, each for all that is in flight, and a barrier behind each; core Triton issues K after P V."""
    main_loop = small("cp_async_pipeline").partition("scf.for")[2].partition("scf.for")[0]
    steps = re.findall(r"async_wait|async_copy_global|tt\.dot\b", main_loop)
    assert steps == ["async_wait", "async_copy_global", "tt.dot", "async_wait", "async_copy_global", "tt.dot"]
    assert census("cp_async_pipeline")["BAR"] == 2 * 2, "two loops, full tiles and the diagonal"
    assert census("cp_async_pipeline")["LDGSTS"] > 0
    assert census("xor_swizzle")["LDGSTS"] == 0


@pytest.mark.parametrize("name", chosen.params(TMA, is_proven, 2))
def test_a_rung_of_the_tma_ladder_swizzles_waits_and_has_registers_as_it_says(name: str) -> None:
    """The descriptor swizzles and ldmatrix reads it. The compiler has a barrier of all that run a program before each
    arrival. Consumers have the registers of the launch until some move."""
    texts, found = compiled(*cell(name)).asm, recorded_code(*cell(name))["census"]
    assert set(re.findall(r"swizzlingByteWidth = (\d+)", texts["ttgir"])) == {SWIZZLES[name]}
    assert all(found.get(opcode) for opcode in ("UTMALDG", "LDSM", "LDSM.T", "HMMA"))
    assert not found.get("HGMMA")
    kinds = r"bar\.sync[^;]*|mma\.sync|mbarrier\.arrive\.shared"
    words = [" ".join(one.split()) for one in re.findall(kinds, texts["ptx"])]
    products = [number for number, word in enumerate(words) if word == "mma.sync"]
    between = words[products[0] : products[-1] + 1]
    assert {word for word in between if word.startswith("bar.sync")} == WAITED_BY[name]
    ahead = {words[number - 1] for number, word in enumerate(words) if word == "mbarrier.arrive.shared"}
    assert ahead == (WAITED_BY[name] if name not in ("tma_loads", "tma_swizzle") else set())
    consumers = re.search(r"setmaxnreg\S+\s+(\d+)", texts["ptx"].partition("barrier.sync")[2])
    expected = {"warp_specialized": 168, "setmaxnreg_consumers": 240, "softmax_lock": 240}
    assert (int(consumers[1]) if consumers else None) == expected.get(name)


LETTERS = {"SYNCS.PHASECHK": "W", "SYNCS.ARRIVE": "A", "HMMA": "P", "MUFU.EX2": "E"}


@pytest.mark.parametrize(
    ("mask", "head_dim"), chosen.params(list(product(MASKS, (64, 128))), lambda _: is_proven("softmax_lock"), 1)
)
def test_the_lock_encloses_the_exponentials(mask: str, head_dim: int) -> None:
    """They stand behind a wait, perhaps with the last products of Q K^T, and an arrival follows before the next
    product."""
    for name, has_lock in (("setmaxnreg_consumers", False), ("softmax_lock", True)):
        sass, _ = disassembled(compiled(*cell(name, MASKS[mask], head_dim)).asm["cubin"])
        loop = instruction_order.main_loop(sass)
        assert loop is not None
        order = "".join(letter for one in loop for opcode, letter in LETTERS.items() if one.is_a(opcode))
        locked = re.search(r"WP*(E+)A", order + order)
        assert bool(locked and len(locked[1]) == order.count("E")) == has_lock, order


@pytest.mark.parametrize(("name", "mask"), list(product(HOPPER, MASKS)))
def test_no_main_loop_is_serialized_or_spills(name: str, mask: str, code: Code) -> None:
    main_loop = code(name, MASKS[mask])["main_loop"]
    assert not main_loop["serialized"]
    assert main_loop["local_memory"] <= ROUND_TRIPS.get(name, 0)


WARPGROUPS = [
    ("producer_consumer", 128, Tile(192, 128, 2, 12)),
    ("producer_consumer", 64, Tile(64, 256, 2, 4)),
    ("flagship", 128, Tile(192, 64, 3, 12)),
    ("flagship", 64, Tile(192, 64, 4, 12)),
    ("flagship", 64, Tile(192, 128, 2, 12)),
    ("flagship", 256, Tile(128, 64, 2, 8)),
]


@pytest.mark.parametrize(("name", "head_dim", "tile"), chosen.params(WARPGROUPS, lambda one: is_proven(*one), 2))
def test_one_to_three_warpgroups_hold_what_the_limits_allow(name: str, head_dim: int, tile: Tile, code: Code) -> None:
    found = code(name, False, head_dim, tile)
    assert not found["main_loop"]["serialized"]
    assert found["main_loop"]["local_memory"] == 0


@pytest.mark.parametrize(
    ("name", "head_dim", "tile"), chosen.params([WARPGROUPS[1], WARPGROUPS[2]], lambda one: is_proven(*one), 1)
)
def test_the_producer_is_one_warp_of_a_warpgroup(name: str, head_dim: int, tile: Tile) -> None:
    threads = 32 * (tile.warps + 4)
    assert f".reqntid {threads}" in compiled(*cell(name, False, head_dim, tile)).asm["ptx"]


@pytest.mark.parametrize("name", HOPPER)
def test_registers_move_from_the_producer_on(name: str, code: Code) -> None:
    assert ({24, 240} <= set(code(name).get("setmaxnreg", []))) == (name != "wgmma")
    assert code(name)["census"]["UTMALDG"] > 0


@pytest.mark.parametrize("name", ["wgmma", "producer_consumer", "exp_lock"])
def test_a_serial_softmax_stands_alone(name: str, code: Code) -> None:
    assert set(code(name)["main_loop"]["under_products"].values()) == {0}


@pytest.mark.parametrize("mask", MASKS)
def test_each_technique_has_its_own_order(mask: str, code: Code) -> None:
    """The lock is an mbarrier: all maxima stand before its wait, all exponentials before its arrival. Overlapped, the
    assembler moves the wait above the exponentials, as in the CUDA twins, though the source says otherwise; behind the
    branch of a vote it does not carry them past it, and the earlier the branch, the more stay. Maxima of integers are
    of three."""
    loops = {name: code(name, MASKS[mask])["main_loop"] for name in HOPPER}
    sequence = loops["exp_lock"]["sequence"]
    ahead, _, behind = sequence.partition("66 ex2")
    assert "ex2" not in ahead + behind
    assert ahead.rstrip("( ").endswith("mbarrier wait, bar.sync,"), sequence
    assert " max" not in behind
    assert "mbarrier arrive" in behind.partition("wgmma")[0], sequence
    under = {name: loop["under_products"] for name, loop in loops.items()}
    for name in ("overlapped_softmax", "pingpong"):
        assert under[name]["exponentials"] < loops[name]["all"]["exponentials"] / 4, loops[name]["sequence"]
    for name in PINNED:
        for kind in ("maxima", "shuffles"):
            assert under[name][kind] == loops[name]["all"][kind], loops[name]["sequence"]
        assert under[name]["exponentials"] >= 10, loops[name]["sequence"]
    stay = [under[name]["exponentials"] for name in ("persistent", "lazy_rescale_wgmma", "early_rescale")]
    assert stay == sorted(stay)
    assert stay[0] < stay[1] - 10, stay
    assert loops["integer_max"]["all"]["maxima"] < 0.7 * loops["persistent"]["all"]["maxima"]


def test_o_leaves_by_tma_where_the_rung_says_so(code: Code) -> None:
    stores = {name: code(name)["census"].get("UTMASTG", 0) for name in HOPPER}
    assert [name for name, number in stores.items() if number] == HOPPER[HOPPER.index("tma_store") :]


def test_o_lies_where_q_was(code: Code) -> None:
    """Staging takes no shared memory of its own."""
    assert code("tma_store")["smem_bytes"] <= code("persistent")["smem_bytes"]


def test_decode_asks_for_keys_before_it_reads_q() -> None:
    ptx = compiled("attention/flagship_decode", Problem(1, 32, 8, 1, 8192, 128, "bf16"), Tile(16, 128, 3, 8)).asm["ptx"]
    loads = re.findall(r"cp\.async\.bulk\.tensor|ld\.global", ptx)
    assert loads[:6] == ["cp.async.bulk.tensor"] * 6, "K and V of three tiles"
    assert loads[6] == "ld.global"


def test_a_hatch_is_no_series_of_a_ladder() -> None:
    assert techniques.HATCH not in techniques.SERIES
    having = [each.name for each in techniques.TECHNIQUES if sources.has_series(techniques.HATCH, each.path)]
    assert having == ["softmax_lock", "producer_consumer"]


def test_a_hatch_is_not_interpreted() -> None:
    assert "inline PTX" in str(build.available(techniques.HATCH, "cpu"))


def test_the_lock_declines_a_tile_that_has_no_two_halves() -> None:
    problem = Problem.square(2, 4, 1024, 64)
    lock = techniques.get("softmax_lock")
    assert "two halves" in str(techniques.unsupported(lock, techniques.HATCH, problem, Tile(128, 64, 2, 4)))
    assert techniques.unsupported(lock, techniques.HATCH, problem, Tile(128, 64, 2, 8)) is None


LOCKS = (
    Twin("softmax_lock", techniques.HATCH, "256x64-s3-w8"),
    Twin("softmax_lock", techniques.HATCH, "128x64-s2-w8", head_dim=128),
)
ROLES = [Twin("producer_consumer", techniques.HATCH, f"128x64-s{stages}-w8", head_dim=128) for stages in (2, 3, 4)]


OF_HATCHES = pytest.mark.xdist_group("hatches")


@pytest.fixture(scope="module")
def hatches() -> dict[Twin, str]:
    """PTX of each."""
    asked = (programs.at(twin, tritons.installed() or "") for twin in (*LOCKS, *ROLES))
    return {twin: texts["ptx"] for (twin, _), texts in programs.compiled(asked)}


@OF_HATCHES
@pytest.mark.parametrize("lock", LOCKS, ids=lambda twin: twin.tile)
def test_nothing_between_the_wait_and_the_arrival_needs_the_whole_block(lock: Twin, hatches: dict[Twin, str]) -> None:
    """Else half of the warps stand at that barrier and half at the lock, for ever."""
    order = " ".join(re.findall(r"bar\.(?:sync\s+\d+|arrive\s+\w+)|\bex2(?=\.)", hatches[lock])).replace("\t", "")
    assert re.search(r"^bar\.arrive 9 .*bar\.sync 9 bar\.sync 10 (?:ex2 )+bar\.arrive t .*bar\.sync 9", order)
    assert len(re.findall(r"bar\.(?:sync|arrive) (?!0)", order)) == 5


@OF_HATCHES
@pytest.mark.parametrize("roles", ROLES, ids=lambda twin: twin.tile)
def test_it_invalidates_the_barriers_that_nobody_uses_before_k_is_loaded(roles: Twin, hatches: dict[Twin, str]) -> None:
    """They lie one after another where the memory of the block begins, and so does K's first stage."""
    ptx, stages = hatches[roles], Tile.parse(roles.tile).stages
    base = re.search(r"mov\.b32\s+(%r\d+), global_smem;", ptx)[1]  # type: ignore[index]
    offsets = {base: 0} | {name: int(at) for name, at in re.findall(rf"add\.s32\s+(%r\d+), {base}, (\d+);", ptx)}
    made = {offsets[name] for name in re.findall(r"mbarrier\.init\.shared::cta\.b64 \[(%r\d+)\]", ptx)}
    keys = stages * 64 * 128 * 2
    assert sorted(at for at in made if at < keys) == [8 * stage for stage in range(stages)]
    order = "".join(re.findall(r"mbarrier\.in(?=val)|(?<=cp\.async\.bulk\.)tensor(?=\S*mbarrier)", ptx))
    assert order.startswith("tensor" * 2 + "mbarrier.in" * stages + "tensor"), "Q of two consumers, then K"
