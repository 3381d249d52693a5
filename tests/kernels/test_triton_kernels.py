"""Triton twins: right in the interpreter, the promised instruction class, no two programs that are secretly one."""

import importlib
import inspect
import itertools
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from harness import build
from harness.build import machine_code
from harness.catalog import sources, techniques
from harness.catalog.cases import Case
from harness.catalog.entries import Tile
from harness.inspection import survey
from harness.measure import arenas
from harness.operators.attention import reference
from harness.operators.attention.operator import OPERATOR
from harness.operators.attention.problem import Problem
from tests.conftest import CHECKOUT as ROOT
from tests.support import children, chosen, proven
from tests.support.programs import normalized, ttgir
from triton_kernels.attention import specialization
from triton_kernels.attention.packed_rows import COUNTERS

KERNELS = ROOT / "triton_kernels" / "attention"
LADDERS = {ladder.name: ladder for ladder in OPERATOR.ladders}
LADDER = {path.stem: ladder for ladder in LADDERS for path in sorted((KERNELS / ladder).glob("[!_]*.py"))}
"""Name of a kernel -> its ladder: what exists, whether or not the registry has it already."""

ARCHS = {"tma": ("sm_90a", "sm_120a")} | {ladder.name: ladder.archs for ladder in LADDERS.values()}
MMA = dict.fromkeys(LADDER, "mma_sync") | {technique.name: technique.mma for technique in techniques.TECHNIQUES}

PROBLEMS = [
    Problem(2, 2, 1, 128, 128, 64, "fp16", False, "bshd"),
    Problem(1, 2, 2, 128, 128, 64, "fp16", True, "bhsd"),
    Problem(1, 4, 1, 64, 192, 64, "fp16", True, "bshd"),
    Problem(1, 2, 1, 192, 64, 64, "fp16", True, "bhsd"),  # two of three query blocks see nothing
    Problem(2, 1, 1, 64, 128, 128, "fp16", False, "bhsd"),
    Problem(1, 2, 2, 128, 128, 128, "fp16", True, "bshd"),
]
TILES = [Tile(64, 32), Tile(32, 64)]
RAGGED = [
    Problem(1, 2, 1, 1, 203, 64, "fp16", True, "bshd"),
    Problem(2, 2, 1, 2, 1, 64, "fp16", False, "bhsd"),
    Problem(1, 1, 1, 1, 1, 64, "fp16", True, "bhsd"),
    Problem(1, 2, 2, 63, 65, 64, "fp16", True, "bhsd"),
    Problem(2, 2, 1, 65, 63, 64, "fp16", True, "bshd"),  # the first rows see nothing
    Problem(1, 2, 2, 113, 203, 128, "fp16", False, "bshd"),
    Problem(1, 2, 1, 203, 113, 128, "fp16", True, "bhsd"),
    Problem(1, 2, 1, 113, 113, 256, "fp16", True, "bshd"),
]
ON_HOPPER = [
    Problem.square(4, 16, 4096, head_dim, dtype="bf16", causal=causal)
    for head_dim, causal in itertools.product((128, 64), (False, True))
]
COMPILED, COMPILED_TILE = Problem(2, 4, 2, 256, 256, 64, "bf16", True), Tile(64, 32)


def tiles(problem: Problem) -> list[Tile]:
    """One tile where lengths are equal, both where they differ."""
    return TILES[: 1 + (problem.seq_q != problem.seq_kv)]


def module(name: str):
    return importlib.import_module(f"triton_kernels.attention.{LADDER[name]}.{name}")


def kernel(name: str) -> specialization.Twin:
    return module(name).twin


def program(name: str) -> str:
    """Name of the kernel that is launched: another one's where the twin is a re-export."""
    return kernel(name).kernel.__name__


DISTINCT = [name for name in LADDER if program(name) == name]
GENERAL = [one.name for one in techniques.TECHNIQUES if one.general and one.name in DISTINCT]
HOPPER = [name for name in DISTINCT if LADDER[name] == "hopper"]
"""Native kernels: the others are compiled in a process that keeps them from wgmma."""

MMA_SYNC = [name for name in DISTINCT if name not in HOPPER]
GENERAL_MMA_SYNC = [name for name in GENERAL if name not in HOPPER]
CELLS = [(name, arch) for name in MMA_SYNC for arch in ARCHS[LADDER[name]]]


def jobs(function, *arguments):
    """What one of the functions below returns in a process that compiles `mma.sync` only, as the twins are."""
    return children.call(function, *arguments, environment={"DISABLE_MMA_V3": "1"})


def interpreted(function, *arguments):
    return children.call(function, *arguments, environment={"TRITON_INTERPRET": "1"})


@cache
def code(name: str, problem: Problem = ON_HOPPER[0]) -> dict:
    """The `code` of a row at the reference tile; where there is none, what is compiled."""
    asked = case, _ = cell(name, problem)
    if (found := proven.code(asked)) is None:
        environment = build.environment_of(case)
        found = children.call(survey.inspect_one, *asked, "bundled", environment=environment)["code"]
    return found | {"census": {opcode: number for opcode, number in found["census"].items() if number}}


def cell(name: str, problem: Problem) -> survey.Cell:
    """At the registry's tile, where Triton takes that."""
    technique = techniques.of_qualified(name)
    tile = techniques.reference_tile(technique, problem.head_dim)
    if techniques.unsupported(technique, "triton", problem, tile):
        tile = Tile(128, 64, 2, 8)
    return Case("inspect", name, "triton", problem, tile), survey.MEASURED


def is_left_out(name: str, problem: Problem) -> bool:
    """What is recorded costs nothing to read, and what nothing proves is compiled."""
    return proven.passed(name, "triton") and not proven.compiled(cell(name, problem))


def interpret(
    name: str,
    problem: Problem,
    tile: Tile,
    section_bytes: int | None = None,
    distribution: str = "shifted",
) -> tuple[float, float]:
    """Errors of O (relative L2) and of LSE (absolute). Nothing but O and LSE may be written, and all of both is."""
    p, program = problem, kernel(name)
    given, out = arenas.make(p, distribution, 0, "cpu", padded=True), arenas.make_outputs(p, "cpu", padded=True)
    workspace = torch.zeros(program.workspace_bytes(p), dtype=torch.uint8)
    arguments = {"scale": p.scale, "causal": p.causal}
    with pytest.MonkeyPatch.context() as patch:
        if section_bytes:
            patch.setattr(module(name), "SECTION_BYTES", section_bytes)
        program.launch(*given.tensors.values(), *out.tensors.values(), **arguments, tile=tile, workspace=workspace)
    counters = workspace.view(torch.int32)[:COUNTERS]  # what follows need not be zero
    assert not counters.any(), f"{name} leaves its counters at {counters.tolist()}"
    assert given.unchanged() and out.guards_intact(), f"{name} writes beside its outputs"  # noqa: PT018
    o, lse = reference.truth(*given.tensors.values(), **arguments)
    gap = torch.where(lse == out.tensors["lse"], 0, lse - out.tensors["lse"])  # -inf equals -inf
    return ((out.tensors["o"].double() - o).norm() / o.norm()).item(), gap.abs().max().item()


def interpret_combined(head_by_head: bool, integers: bool, problem: Problem) -> tuple[float, float]:
    """Of the flagship with these of its techniques, where many scores are negative."""
    paying = {"HEAD_BY_HEAD": head_by_head, "INTEGERS": integers}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module("flagship"), "twin", replace(kernel("flagship"), refine=lambda given: given | paying))
        return interpret("flagship", problem, TILES[0], distribution="negative_scores")


def launch_bf16() -> str:
    q = k = v = o = torch.zeros(1, 1, 64, 64, dtype=torch.bfloat16)
    lse = torch.zeros(1, 1, 64)
    try:
        kernel("scalar").launch(q, k, v, o, lse, scale=1.0, causal=False, tile=TILES[0], workspace=None)
    except NotImplementedError as error:
        return str(error)
    return "accepted"


def instruction_class(name: str, arch: str) -> str:
    program = kernel(name).specialize(COMPILED, None, COMPILED_TILE, arch).compile()
    return machine_code.mma_class(machine_code.read_triton(program)["census"])


def intermediate(names: list[str]) -> dict[str, str]:
    """TTGIR of each, normalized: at one tile those of MMA_SYNC, and at another those of the hopper ladder, at head_dim
    64, where its flagship has techniques of two rungs."""
    found = {}
    for name in names:
        problem, tile = (ON_HOPPER[2], Tile(128, 64, 2, 8)) if name in HOPPER else (COMPILED, COMPILED_TILE)
        found[name] = normalized(ttgir(kernel(name).specialize(problem, None, tile, "sm_90a")))
    return found


@cache
def programs() -> dict[str, str]:
    """Name -> normalized TTGIR."""
    return jobs(intermediate, MMA_SYNC) | intermediate(HOPPER)


def shared_memory(name: str, problem: Problem) -> int:
    return kernel(name).specialize(problem, None, COMPILED_TILE, "sm_90a").compile().metadata.shared


def renamed_copy() -> dict:
    """A kernel file under another name, with one variable renamed: a twin that does not own up."""
    import tempfile

    source = (ROOT / "triton_kernels/attention/ampere/direct_rescale.py").read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "another_name.py"
        path.write_text(source.replace("direct_rescale", "another_name").replace("new_max", "larger_max"))
        sys.path.insert(0, folder)
        twins = {"copy": importlib.import_module("another_name").twin, "original": kernel("direct_rescale")}
    return {name: normalized(ttgir(twin.specialize(COMPILED, None, TILES[0], "sm_80"))) for name, twin in twins.items()}


def warp_grids(name: str) -> list[str]:
    """The grids of warps, "along rows, along columns", of its products at 64x64 with head_dim 128."""
    problem = Problem(1, 2, 2, 256, 256, 128, "bf16")
    tile = Tile(64, 64, 1, 8 if name == "split_warp_pairs" else 4)
    text = ttgir(kernel(name).specialize(problem, None, tile, "sm_90a"))
    return sorted(set(re.findall(r"nvidia_mma<.*warpsPerCTA = \[(.*?)\]", text)))


def jit_and_ahead(name: str) -> dict:
    """Triton's cache keys of what the JIT call compiles, under a driver that only names a GPU, and of `specialize`."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    class Hopper:
        get_current_device = staticmethod(lambda: 0)
        get_current_stream = staticmethod(lambda device: 0)
        get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))

    driver.set_active(Hopper())
    q, k, v, o, lse = specialization.meta_tensors(COMPILED, None)
    values = specialization.arguments(q, k, v, o, lse, scale=0.1, causal=True, tile=COMPILED_TILE)
    twin = kernel(name)
    values = twin.given(values, workspace=None)
    jit = twin.kernel.run(**values, **twin.options(COMPILED_TILE), grid=(1,), warmup=True)
    driver.set_active(None)
    return {"jit": jit.hash, "ahead": twin.specialize(COMPILED, None, COMPILED_TILE, "sm_90a").compile().hash}


INTERPRETED = [
    (name, problem, tile)
    for names, problems in ((DISTINCT, PROBLEMS), (GENERAL, RAGGED))
    for problem, name in itertools.product(problems, names)
    for tile in tiles(problem)
]


@pytest.mark.parametrize(
    ("name", "problem", "tile"), chosen.params(INTERPRETED, lambda one: proven.passed(one[0], "triton"), 8)
)
def test_a_kernel_is_right_in_the_interpreter(name, problem, tile):
    relative, lse = interpreted(interpret, name, problem, tile)
    assert relative < 6e-4, f"O is off by {relative:.1e} (relative L2)"
    assert lse < 1e-5, f"LSE is off by {lse:.1e}"


@pytest.mark.parametrize("name", ["longest_first", "conditional_rescale", "lean_instructions"])
def test_heads_are_walked_in_sections(name):
    """Three heads a section: sections of 3, 3 and 2."""
    problem = Problem(2, 4, 2, 64, 64, 64, "fp16", False, "bshd")
    assert interpreted(interpret, name, problem, TILES[0], 3 * 4 * problem.seq_kv * problem.head_dim)[0] < 6e-4


def test_bf16_is_refused_in_the_interpreter():
    assert interpreted(launch_bf16).startswith("q.dtype: got torch.bfloat16")


@pytest.mark.parametrize(("name", "arch"), chosen.params(CELLS, lambda cell: proven.passed(cell[0], "triton"), 2))
def test_its_instruction_class_is_the_registrys(name, arch):
    assert jobs(instruction_class, name, arch) == MMA[name]


LEAST_AND_WIDEST = [
    *((name, Problem(1, 1, 1, 1, 1, 64, "bf16", True)) for name in GENERAL_MMA_SYNC),
    (GENERAL_MMA_SYNC[-1], Problem(1, 2, 1, 1, 203, 256, "fp16", True, "bshd")),
]


@pytest.mark.parametrize(
    ("name", "problem"), chosen.params(LEAST_AND_WIDEST, lambda one: proven.passed(one[0], "triton"), 2)
)
def test_general_programs_compile_for_one_row_and_wide_heads(name, problem):
    """Lengths that Triton takes for constants, and head_dim 256."""
    assert jobs(shared_memory, name, problem) <= 232_448  # bytes that a block has on sm_90


@pytest.mark.parametrize("stride", [128, 2 * 128, 3 * 128])
def test_row_strides_of_packed_storage_are_constants(stride):
    problem = Problem(1, 2, 2, 64, 64, 128, "bf16", False, "bhsd")
    strides = ((64 * 6 * 128, 64 * 3 * 128, stride, 1),) * 4
    spec = kernel("lean_instructions").specialize(problem, strides, COMPILED_TILE, "sm_80")
    fixed = stride in (128, 2 * 128)  # head by head, or the two heads of a row side by side
    assert spec.signature["k_stride_row"] == ("constexpr" if fixed else "i32")


def test_k_and_v_arrive_by_the_tensor_memory_accelerator():
    for name in MMA_SYNC:
        if LADDER[name] in ("ampere", "tma"):
            assert bool(code(name)["census"].get("UTMALDG")) == (LADDER[name] == "tma"), name


def test_native_series_uses_wgmma_on_hopper():
    assert instruction_class("tma_loads", "sm_90a") == "wgmma"


@pytest.mark.parametrize(
    ("name", "problem"),
    chosen.params(list(itertools.product(HOPPER, ON_HOPPER)), lambda one: is_left_out(*one), 2),
)
def test_the_hopper_ladder_is_wgmma_without_spills(name, problem):
    found = code(name, problem)
    assert (machine_code.mma_class(found["census"]), found["spill_bytes"]) == ("wgmma", 0)


WITH_ROLES = {"producer_consumer", "host_descriptors", "lasting_roles"}


def test_roles_and_registers_are_given_to_three_programs_of_the_hopper_ladder():
    with_roles = {name for name in HOPPER if "ttg.warp_specialize(" in programs()[name]}
    moved = {name for name in HOPPER if "USETMAXREG" in code(name)["census"]}
    assert with_roles == moved == WITH_ROLES


def test_programs_that_make_descriptors_are_those_with_roles():
    made = {name for name in DISTINCT if "make_tensor_descriptor" in inspect.getsource(module(name))}
    assert made == WITH_ROLES


@pytest.mark.parametrize("name", sorted(WITH_ROLES))
def test_descriptors_fit_the_workspace(name):
    spec = kernel(name).specialize(ON_HOPPER[0], None, cell(name, ON_HOPPER[0])[0].tile, "sm_90a")
    assert 0 < spec.compile().metadata.global_scratch_size <= specialization.DESCRIPTORS_BYTES


def test_no_program_is_secretly_an_earlier_one():
    """Else make one a re-export of the other, and say what core Triton lacks."""
    assert len(set(programs().values())) == len(DISTINCT), sorted(programs(), key=programs().__getitem__)


def test_a_renamed_copy_would_be_found():
    found = jobs(renamed_copy)
    assert found["copy"] == found["original"]


@pytest.mark.parametrize(
    ("head_dim", "causal", "length", "head_by_head", "integers"),
    [
        (64, False, 2047, False, True),
        (64, False, 2048, True, True),
        (64, True, 2047, True, False),
        (64, True, 2048, True, True),
        (128, False, 512, True, False),
        (128, True, 16_384, True, False),
        (256, False, 16_384, True, False),
        (256, True, 2047, True, False),
        (256, True, 2048, False, False),
    ],
)
def test_the_flagship_has_what_pays_on_a_problem(head_dim, causal, length, head_by_head, integers):
    problem = Problem.square(1, 2, length, head_dim, causal=causal)
    found = kernel("flagship").specialize(problem, None, Tile(64, 128), "sm_90a")
    names = [found.function.arg_names[place] for (place,) in found.constexprs]
    constants = dict(zip(names, found.constexprs.values(), strict=True))
    assert (constants["HEAD_BY_HEAD"], constants["INTEGERS"]) == (head_by_head, integers)


@pytest.mark.parametrize("length", [2047, 2048])
def test_the_flagships_classes_of_length_are_those_of_the_tiles(length):
    given = module("flagship").paying({"HEAD_DIM": 64, "CAUSAL": False, "seq_kv": length})
    is_short = Problem.square(1, 2, length, 64).cells[0].endswith("-short")
    assert given["HEAD_BY_HEAD"] is not is_short


@pytest.mark.parametrize(("head_by_head", "integers"), list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("problem", [PROBLEMS[1], RAGGED[4], RAGGED[6]], ids=lambda problem: problem.slug)
def test_the_flagship_is_right_with_any_of_its_techniques(problem, head_by_head, integers):
    relative, lse = interpreted(interpret_combined, head_by_head, integers, problem)
    assert relative < 6e-4, f"O is off by {relative:.1e} (relative L2)"
    assert lse < 1e-4, f"LSE is off by {lse:.1e}"


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[5], RAGGED[3]], ids=lambda problem: problem.slug)
def test_maxima_of_integers_are_right_where_scores_are_negative(problem):
    """Where a row maximum is negative, floats are compared."""
    relative, lse = interpreted(interpret, "integer_max", problem, TILES[0], None, "negative_scores")
    assert relative < 6e-4, f"O is off by {relative:.1e} (relative L2)"
    assert lse < 1e-4, f"LSE is off by {lse:.1e}"


def test_a_re_export_says_whose_program_it_is():
    for name in set(LADDER) - set(DISTINCT):
        assert f"the same program as {program(name)}" in module(name).__doc__
        assert sources.same_program(f"attention/{LADDER[name]}/{name}", "triton") == program(name)


def test_every_technique_has_its_twin():
    assert {technique.name for technique in techniques.TECHNIQUES} == set(LADDER)


def test_the_first_rungs_copy_through_the_registers():
    ampere = [name for name in DISTINCT if LADDER[name] == "ampere"]
    through = [name for name in ampere if "LDGSTS" not in code(name)["census"]]
    first = ["direct_rescale", "register_softmax", "scalar", "split_warp_pairs", "vectorized_loads", "wmma"]
    assert through == first


def test_only_vectorized_loads_takes_16_bytes_at_a_time():
    one_by_one, vectorized = (code(name)["census"] for name in ("scalar", "vectorized_loads"))
    assert "LDG.16" in one_by_one
    assert not {"LDG.128", "STG.128"} & {*one_by_one}
    assert {"LDG.128", "STG.128"} <= {*vectorized}
    assert "LDG.16" not in vectorized


@pytest.mark.parametrize("name", [name for name in DISTINCT if LADDER[name] == "ampere" and MMA[name] == "mma_sync"])
def test_warps_own_whole_rows_from_register_softmax_on(name):
    """The warp grids of the products with 64 rows and head_dim 128, where one whole O would lay warps along columns."""
    assert jobs(warp_grids, name) == [{"wmma": "1, 4", "split_warp_pairs": "2, 4"}.get(name, "4, 1")]


def test_stages_count_buffers_and_v_is_under_way_during_q_k():
    one, two = (
        kernel("cp_async_pipeline").specialize(COMPILED, None, Tile(64, 64, stages), "sm_80").compile()
        for stages in (1, 2)
    )
    tile_bytes = 64 * COMPILED.head_dim * 2
    assert two.metadata.shared - one.metadata.shared == 2 * tile_bytes, "one more K and one more V"
    # Copies that may be in flight in a step, during Q K^T and during P V: with one buffer of each V and nothing, with
    # two the next K and V besides.
    in_flight = []
    for program in (one, two):
        main_loop = program.asm["ttgir"].partition("scf.for")[2]
        in_flight.append(re.findall(r"async_wait %.*num = (\d+)", main_loop)[:2])
    assert in_flight == [["1", "0"], ["3", "2"]]


@pytest.mark.parametrize("name", ["direct_rescale", "lean_mbarrier_ring"])
def test_what_is_compiled_ahead_is_what_the_jit_compiles(name):
    hashes = jobs(jit_and_ahead, name)
    assert hashes["jit"] == hashes["ahead"]


def test_specialization_follows_tritons_rules():
    problem = Problem(2, 4, 4, 4096, 4096, 64, "bf16", True, "bshd")
    q = (10, 2**33, 100, 1)  # neither 10 nor 100 is a multiple of 16; 2**33 is, and needs 64 bits
    strides = (q, *specialization.packed_strides(problem)[1:])
    spec = kernel("direct_rescale").specialize(problem, strides, TILES[0], "sm_90a")
    kind = spec.signature
    position = {name: (number,) for number, name in enumerate(kind)}
    assert kind["q_ptr"] == "*bf16"
    assert kind["lse_ptr"] == "*fp32"
    assert kind["scale"] == "fp32"
    assert kind["group"] == "constexpr"
    assert spec.constexprs[position["group"]] == 1
    assert kind["q_stride_batch"] == "i32"
    assert kind["q_stride_head"] == "i64"
    assert {name for name in kind if spec.attrs.get(position[name])} == {
        *("q_ptr", "k_ptr", "v_ptr", "o_ptr", "lse_ptr", "seq_q", "seq_kv", "q_stride_head"),
        *(f"{tensor}_stride_{dim}" for tensor in "kvo" for dim in ("batch", "head", "row")),
    }
    assert spec.grid == (8, 64)
    assert spec.options.enable_fp_fusion is True


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_storage_orders_do_not_differ_by_dimensions_of_size_one(layout):
    problem = Problem(1, 1, 1, 64, 64, 64, "fp16", False, layout)
    other = Problem(1, 1, 1, 64, 64, 64, "fp16", False, "bhsd")
    mine, theirs = (kernel("scalar").specialize(p, None, TILES[0], "sm_80") for p in (problem, other))
    assert (mine.signature, mine.attrs) == (theirs.signature, theirs.attrs)


def test_packed_strides_are_those_of_the_layout():
    problem = Problem(2, 4, 2, 128, 256, 64, "fp16", False, "bshd")
    q, k, v, o = specialization.packed_strides(problem)
    assert q == o == (128 * 4 * 64, 64, 4 * 64, 1)
    assert k == v == (256 * 2 * 64, 64, 2 * 64, 1)


def test_an_option_that_triton_does_not_know_is_an_error():
    with pytest.raises(ValueError, match=r"tile\.extra: got \['maxregs'\], expected options of Triton .*maxnreg"):
        kernel("scalar").specialize(COMPILED, None, Tile(64, 64, extra=(("maxregs", 128),)), "sm_80")


def test_a_parameter_that_nothing_is_offered_for_is_named():
    class Misspelled:
        __name__, arg_names = "scalar", ["q_ptr", "k_desc", "EVEN_N", "q_stride_seq"]

    twin = specialization.Twin(Misspelled(), dict)
    tensors = specialization.meta_tensors(COMPILED, None)
    offered = specialization.arguments(*tensors, scale=1.0, causal=True, tile=COMPILED_TILE)
    with pytest.raises(TypeError, match="scalar: got the parameters q_stride_seq, expected of"):
        twin.given(offered, workspace=None)
    Misspelled.arg_names.remove("q_stride_seq")
    given = twin.given(offered, workspace=None)
    assert list(given) == ["q_ptr", "k_desc", "EVEN_N"]
    assert given["k_desc"].block_shape == [1, 1, COMPILED_TILE.block_n, COMPILED.head_dim]


@pytest.mark.gpu
@pytest.mark.parametrize("name", DISTINCT)
def test_launch_is_specialized_as_specialize_says(name):
    problem = Problem(2, 4, 2, 192, 128, 64, "bf16", True, "bhsd")
    tensors = [
        torch.randn(shape, dtype=torch.bfloat16, device="cuda").as_strided(shape, stride)
        for shape, stride in zip(
            [(2, 4, 192, 64), (2, 2, 128, 64), (2, 2, 128, 64), (2, 4, 192, 64)],
            specialization.packed_strides(problem),
            strict=True,
        )
    ]
    lse = torch.empty(2, 4, 192, device="cuda")
    capability = torch.cuda.get_device_capability()
    if capability[0] not in LADDERS[LADDER[name]].capabilities:
        pytest.skip(f"the {LADDER[name]} ladder does not run on compute capability {capability}")
    tile = Tile(64, 32, 1, 8 if name == "warp_specialized" else 4)  # four warps fail: see the native hint's test
    if name in HOPPER:
        tile = Tile(128, 64, 2, 8)
    workspace = torch.zeros(kernel(name).workspace_bytes(problem), dtype=torch.uint8, device="cuda")
    loaded = kernel(name).launch(*tensors, lse, scale=0.1, causal=True, tile=tile, workspace=workspace)
    arch = "sm_{}{}".format(*capability)
    spec = kernel(name).specialize(problem, [tensor.stride() for tensor in tensors], tile, arch)
    assert spec.compile().hash == loaded.hash  # Triton's own cache key
