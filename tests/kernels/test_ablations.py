"""The flagship, or another kernel, less one technique at a time: each patch applies and is small, its kernel passes the
numerics gate on the CPU (attention_backward/test_rungs.py runs those of gradients), and its machine code has lost what
it says and nothing else.

`make test` reads the machine code of each at every problem and tile at which it is timed, from rows of this source and
this compiler; of those that no row holds it compiles two of each kernel, by the commit. It runs two builds of a kernel
that no GPU has passed, and of the other builds two that the commit chooses. `make test-full` compiles at every tile
that `tune` chose for the flagship, and runs all builds.
"""

import re
import subprocess
from dataclasses import replace
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_kernels import patched
from harness import build, operators
from harness.build import cuda, instruction_order, machine_code
from harness.build.cuda import workspace_bytes
from harness.catalog import experiments, sources, techniques
from harness.catalog.cases import Case, of_experiment
from harness.catalog.entries import Ablation, Tile
from harness.inspection.survey import MEASURED, Cell
from harness.measure import gate as gates
from harness.operators.attention import gap as ledger
from harness.operators.attention import inputs
from harness.operators.attention.ablations import ABLATIONS
from harness.operators.attention.problem import Problem
from harness.operators.attention_backward import prices
from harness.operators.attention_backward.problem import Problem as Gradients
from harness.setup import doctor
from tests.support import chosen, cpu_run, proven, together
from tests.support.tuned import tuned

pytestmark = pytest.mark.spread

EXPERIMENT = experiments.load("what_triton_misses")
PARTS = {
    "counter": "flagship_variants",
    "vote": "flagship_variants",
    "mufu": "flagship_variants",
    "wait_for_number": "flagship_variants",
    "evict_normal": "flagship_variants",
    "second_q_buffer": "flagship_variants",
}
"""What has no price in the ledger -> the experiment that times a kernel without it."""
TIMED = {
    (case.technique, case.problem, case.tile)
    for each in (EXPERIMENT, *map(experiments.load, PARTS.values()))
    for case in of_experiment(each, "h200")
}
PROBLEMS = {(one.head_dim, one.causal): one for one in EXPERIMENT.problems if one.seq_q == 4096}
SQUARE = ledger.SQUARE
CHOSEN = {(head_dim, tile) for head_dim, _, tile in tuned()}
"""Tiles of the flagship, each with a head_dim for which it was chosen."""
OWN_TILES = (ledger.TRITONS, ledger.CAUSAL_TRITONS, SQUARE)
"""Of VOCABULARIES."""
SERIALIZED = [one.name for one in ABLATIONS if one.serialized]
VOCABULARIES = (ledger.VOCABULARY, ledger.ORDERED, ledger.WITH_INTEGERS)
LESS = [one for one in ABLATIONS if one.lacks]


OF_GRADIENTS = operators.get("attention_backward").ablations
GRADIENTS = (Gradients.square(4, 16, 4096, 128), Gradients.square(4, 32, 4096, 64, causal=True))


def cell(name: str, problem: Any, tile: Tile) -> Cell:
    return Case("inspect", name, "cuda", problem, tile), MEASURED


def cell_of_gradients(name: str, problem: Gradients) -> Cell:
    technique = techniques.of_qualified(f"attention_backward/{name}")
    return cell(name, problem, techniques.reference_tile(technique, problem.tile_key))


def tiles_of(one: Ablation, head_dim: int) -> list[Tile]:
    if one.name in VOCABULARIES:
        return [*OWN_TILES]
    timed = {tile for name, problem, tile in TIMED if (name, problem.head_dim) == (one.name, head_dim) and tile}
    return sorted({SQUARE} | timed | {tile for chosen_for, tile in CHOSEN if chosen_for == head_dim})


def cells() -> list[Any]:
    """At every tile; what `make test` leaves out is marked."""
    problems, found = sorted({*EXPERIMENT.problems, *(problem for _, problem, _ in TIMED)}), []
    for one in ABLATIONS:
        all_tiles = [(problem, tile) for problem in problems for tile in tiles_of(one, problem.head_dim)]
        taken = [at for at in all_tiles if not techniques.unsupported(one, "cuda", *at)]
        timed = {at for at in taken if (one.name, *at) in TIMED}
        recorded = {at for at in timed if proven.compiled(cell(one.name, *at))}
        quick = recorded | chosen.by_commit(timed - recorded, 2)
        for problem, tile in taken:
            if (problem, tile) in timed or problem in PROBLEMS.values():
                name = f"{one.name}-{problem.slug}-{tile.slug}"
                marks = () if (problem, tile) in quick else pytest.mark.full
                found.append(pytest.param(cell(one.name, problem, tile), id=name, marks=marks))
    for one, problem in product(OF_GRADIENTS, GRADIENTS):
        found.append(pytest.param(cell_of_gradients(one.name, problem), id=f"{one.name}-{problem.slug}"))
    return found


def main_loop(name: str, problem: Problem = PROBLEMS[128, True], tile: Tile = SQUARE) -> dict[str, Any]:
    return proven.machine_code(cell(name, problem, tile))["main_loop"]


@pytest.mark.parametrize("operator", ["attention", "attention_backward"])
def test_every_file_of_the_folder_is_in_the_registry(operator: str) -> None:
    folder, known = sources.ROOT / f"cuda_kernels/{operator}/ablations", operators.get(operator)
    assert sorted(path.stem for path in folder.iterdir()) == sorted(one.name for one in known.ablations)
    assert not {one.name for one in known.ablations} & {one.name for one in known.techniques}


def test_each_is_timed_for_a_term_of_the_gap_or_as_a_variant() -> None:
    assert {one.name for one in ABLATIONS} <= {name for name, _, _ in TIMED}
    assert {one.name for one in OF_GRADIENTS} <= {*prices.kernels()}


@pytest.mark.parametrize(
    "one", [one for one in (*ABLATIONS, *OF_GRADIENTS) if one.name != ledger.VOCABULARY], ids=lambda one: one.name
)
def test_it_is_a_small_patch_on_what_it_builds_on(one: Ablation) -> None:
    patch = sources.ROOT / "cuda_kernels" / f"{one.path}.patch"
    changed = [line for line in patch.read_text().partition("\n@@")[2].splitlines() if line[:1] in ("+", "-")]
    assert 2 < len(changed) <= 70
    operator = one.path.partition("/")[0]
    ancestors = {one.builds_on[0], *techniques.of_qualified(f"{operator}/{one.builds_on[0]}").builds_on}
    assert patched.base(patch).stem in ancestors
    kernel = sources.kernel_file("cuda", one.path).read_text()
    assert f" {one.name}(" in kernel
    assert f"launch_kernel<{one.name}>" in kernel
    if one in OF_GRADIENTS:
        assert patched.base(patch).stem == one.builds_on[0]
        return
    priced = {name for term in ledger.TERMS for name in (term.name, *(term.step or ()))}
    assert set(one.lacks) <= priced | {*PARTS}


def test_a_patch_that_does_not_fit_its_kernel_is_refused(tmp_path: Path) -> None:
    hunk = "@@ -1,2 +1,2 @@\n int a;\n-int b;\n+int c;\n"
    base, patch = tmp_path / "base.cu", tmp_path / "less.patch"
    patch.write_text(f"Less.\n\n--- a/cuda_kernels/base.cu\n+++ b/cuda_kernels/less.cu\n{hunk}")
    base.write_text("// The base.\nint a;\nint b;\n")
    assert patched.kernel_file("less", tmp_path).read_text() == "// Less.\nint a;\nint c;\n"
    for text in ("int a;\n\nint b;\n", "int a;\nint b;\nint a;\nint b;\n", "int a;\nint b;  // a comment\n"):
        base.write_text(text)
        with pytest.raises(
            ValueError, match=r"less.patch: hunk 1 of 1 does not fit base.cu; expected these lines once"
        ):
            patched.kernel_file("less", tmp_path)
    base.unlink()
    with pytest.raises(ValueError, match=r"less.patch: got no line `--- a/cuda_kernels/FILE.cu`"):
        patched.kernel_file("less", tmp_path)


@pytest.mark.parametrize("one", cells())
def test_it_compiles_without_serialization_or_local_memory(one: Cell) -> None:
    case, code = one[0], proven.machine_code(one)
    fits = (case.problem.head_dim, case.tile) == (64, SQUARE)  # evenly shared registers too
    if case.technique in SERIALIZED and not fits:
        assert code["remarks"] == ["serialized due to insufficient register resources"]
        assert code["main_loop"]["serialized"]
        assert code["spill_bytes"] > 0
        return
    assert not code["main_loop"]["serialized"]
    assert code["spill_bytes"] == 0
    if case.problem not in GRADIENTS:
        assert code.get("remarks", []) == []
        assert code["main_loop"]["local_memory"] == 0


def test_another_producer_leaves_the_main_loop_as_it_was() -> None:
    for one in LESS:
        if one.lacks in (("wait_for_number",), ("evict_normal",), ("second_q_buffer",)):
            for name, problem, tile in TIMED:
                if name == one.name and tile and problem.seq_q == 4096:
                    assert main_loop(name, problem, tile) == main_loop(one.builds_on[0], problem, tile), problem


READ = ((ledger.FLAGSHIP, True, False), ("with_number_in_flight", False, False), ("with_cache_hints", True, True))
"""Kernel, whether it awaits the number of the next tile before the last V, whether its loads have hints."""


@pytest.mark.skipif(doctor.nvcc() is None, reason="no nvcc here")
@pytest.mark.parametrize(
    ("name", "waits", "hints"),
    chosen.params(READ, lambda one: proven.compiled(cell(one[0], PROBLEMS[128, False], SQUARE)), 1),
)
def test_a_number_is_awaited_and_loads_have_hints_as_the_ablation_says(name: str, waits: bool, hints: bool) -> None:
    """The first instruction that names the register of the counter's result waits for it. One kernel, by the commit,
    where a row has its machine code: it cannot have changed."""
    case, arch = cell(name, PROBLEMS[128, False], SQUARE)
    assert arch is not None
    library = cuda.build_cuda(case, arch).library
    done = subprocess.run([machine_code.disassembler(), "-sass", library], capture_output=True, text=True, check=True)
    (code,) = instruction_order.functions(done.stdout)
    (taken,) = (place for place, one in enumerate(code) if one.is_a("ATOMG"))
    result = code[taken].operands.split(", ")[1]
    used = next(place for place in range(taken + 1, len(code)) if re.search(rf"\b{result}\b", code[place].operands))
    loads = [place for place, one in enumerate(code) if one.is_a("UTMALDG")]
    assert taken < loads[-1]
    assert (used < loads[-1]) is waits
    assert {"desc[" in code[place].operands for place in loads} == {hints}


def test_what_is_under_the_products_is_what_the_ablation_says() -> None:
    """Without overlap nothing is, at the tile that is timed. Maxima that nothing holds leave the place that they had.
    The main loop of integer maxima holds those of floats too, for where the vote is lost: they are counted once."""
    for name in ("without_overlap", ledger.IN_STEP, ledger.ANY_TILE, *VOCABULARIES):
        (tile,) = {tile for timed, at, tile in TIMED if (timed, at) == (name, PROBLEMS[128, True]) and tile}
        assert set(main_loop(name, tile=tile)["under_products"].values()) == {0}
    held, free = (main_loop(name)["under_products"] for name in ("without_turns", "without_pinned_maxima"))
    assert free["maxima"] + free["exponentials"] < held["maxima"] + held["exponentials"]
    for name in ("without_integer_max", "without_lazy_rescale_or_integer_max"):
        assert main_loop(name)["all"]["maxima"] < main_loop("without_turns")["all"]["maxima"]


def test_what_is_under_the_products_of_gradients_is_what_the_ablation_says() -> None:
    """A program whose products are all awaited at once has nothing under them; without a warp that reduces as much
    stays under them as before."""
    names = ("overlapped", *(one.name for one in OF_GRADIENTS))
    loops = {name: proven.machine_code(cell_of_gradients(name, GRADIENTS[0]))["main_loop"] for name in names}
    under = {name: loop["under_products"]["exponentials"] for name, loop in loops.items()}
    assert under["overlapped"] == under["without_reducing_warp"] > 0
    assert under["without_dp_in_flight"] == under["consumers_reduce"] == under["triton_program"] == 0
    assert len({loop["products"] for loop in loops.values()}) == 1


def test_a_descriptor_built_anew_takes_two_instructions_more_than_a_moved_one() -> None:
    """For each product of the main loop; nothing else that the reader counts is another."""
    for name, problem, tile in TIMED:
        if name == "without_moved_descriptors" and tile:
            moved, anew = (main_loop(one, problem, tile) for one in (ledger.FLAGSHIP, name))
            assert (moved["products"], moved["all"]) == (anew["products"], anew["all"]), problem
            assert anew["instructions"] - moved["instructions"] >= 2 * moved["products"], problem


@pytest.mark.parametrize(
    ("language", "term"),
    [pytest.param(language, one, id=one.name) for language, way in ledger.WAYS.items() for one in way if one.ttgir],
)
def test_a_languages_program_has_the_operations_in_the_order_that_a_term_says(language: str, term: ledger.Term) -> None:
    """Of the main loop, and what follows it: with no other of these operations between, repeats apart."""
    kinds = r"ttng\.\w+|math\.exp2|arith\.mulf|scf\.yield|tt\.store|tt\.return"
    text = compiled(language, ledger.TRITONS if language == ledger.TRITON else SQUARE)["ttgir"]
    order = re.findall(kinds, text[text.index("scf.for") :])
    asked = set(term.ttgir)
    found = [name for name, _ in groupby(name for name in order if name in asked)]
    assert any(tuple(found[start : start + len(term.ttgir)]) == term.ttgir for start in range(len(found))), found


@pytest.mark.parametrize("stages", [1, 2])
def test_core_tritons_compiler_does_not_build_descriptors_anew(stages: int) -> None:
    """In its main loop those of Q, K and V are sums of a descriptor and a constant, or not computed at all."""
    ptx = compiled(ledger.TRITON, replace(ledger.TRITONS, stages=stages))["ptx"]
    label = re.findall(r"^(\$L__BB\d+_\d+):", ptx[: ptx.index("wgmma.mma_async")], re.MULTILINE)[-1]
    loop = re.search(rf"^{re.escape(label)}:.*?bra\S*\s+{re.escape(label)};", ptx, re.DOTALL | re.MULTILINE)
    products = re.findall(r"wgmma\.mma_async[^;]*;", loop[0])
    used = {name for product in products for name in re.findall(r"%rd\d+", product)}
    made = {
        name: how for how, name in re.findall(r"^\s*([a-z0-9.]+)\s+(%rd\d+),", loop[0], re.MULTILINE) if name in used
    }
    assert used
    if stages == 1:
        assert made == {}
    else:
        built = [how for how in made.values() if how != "add.s64"]
        assert 0 < len(built) <= 2 < len(made), "one for each of K and V"


@cache
def compiled(language: str, tile: Tile) -> dict[str, str]:
    """What a language's compiler makes of the flagship, by stage."""
    case = Case("test", ledger.FLAGSHIP, language, PROBLEMS[128, False], tile)
    made: dict[str, str] = build.compile_triton(case, MEASURED).asm
    return made


ON_A_CPU = pytest.mark.xdist_group("ablations on a CPU")
"""One process runs these tests, so that one build serves them all."""
libraries = pytest.fixture(scope="module")(together.asked)
RUN = {64: Tile(192, 128, 2, 12), 128: SQUARE}


def problem_of(head_dim: int, causal: bool) -> Problem:
    """Ragged, of grouped heads: six tiles of queries for two blocks, so that each buffer of Q is filled again."""
    return Problem(1, 3, 1, RUN[head_dim].block_m + 13, 3 * RUN[head_dim].block_n - 7, head_dim, "fp16", causal, "bshd")


def run_of(one: Ablation, head_dim: int, causal: bool) -> tuple[str, Problem, Tile]:
    tile = ledger.TRITONS if one.name in VOCABULARIES else RUN[head_dim]
    return one.name, problem_of(head_dim, causal), tile


RUNS = [
    run
    for head_dim, causal, one in product((128, 64), (True, False), ABLATIONS)
    if techniques.unsupported(one, "cuda", *(run := run_of(one, head_dim, causal))[1:]) is None
]


def is_left_out(run: tuple[str, Problem, Tile]) -> bool:
    """Of a kernel that no GPU has passed each head_dim and each mask is in one run at least."""
    name, problem, _ = run
    return proven.passed(name) or (problem.head_dim == 128) is problem.causal


@ON_A_CPU
@pytest.mark.parametrize(("name", "problem", "tile"), chosen.params(RUNS, is_left_out, 2))
def test_it_is_right_in_two_orders_of_its_warps(
    name: str, problem: Problem, tile: Tile, libraries: together.Libraries
) -> None:
    launch = cpu_run.launcher(libraries[name, problem, tile], problem, 0, 1)
    verdict = gates.gate(launch, problem, distributions=("negative_scores",), device="cpu", repeats=2, padded=True)
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"


@ON_A_CPU
@pytest.mark.parametrize(
    ("name", "problem"), [(name, problem_of(128, False)) for name in (ledger.FLAGSHIP, "without_counter")]
)
def test_a_static_order_keeps_no_counter(name: str, problem: Problem, libraries: together.Libraries) -> None:
    assert (workspace_bytes(libraries[name, problem].handle, problem) > 0) == (name == ledger.FLAGSHIP)


def rising_scores(name: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """In the first head the first half of the scores are negative and the others are not. In the last it is the
    reverse, but for one row of a warpgroup, where all are negative and the first half far lower."""
    values = inputs.DISTRIBUTIONS["normal"](name, shape, generator)
    if name == "k":
        half = shape[2] // 2
        values[..., -2], values[..., -1] = -40.0, 40.0
        values[:, :, :half, -2] = -200.0
        values[0, 0, :half, -1] = values[-1, -1, half:, -1] = -40.0
    elif name == "q":
        values[..., -2], values[..., -1] = 0.0, 2.0
        values[-1, -1, 40::64, -2] = 12.0
    return values


OVER_MANY_KEYS = [
    (one.name, replace(problem_of(head_dim, causal), heads=2, heads_kv=2, seq_kv=8 * tile.block_n - 7), tile)
    for (head_dim, tile), causal in zip(RUN.items(), (True, False), strict=True)
    for one in ABLATIONS
    if one.lacks == ("vote",)
]


@ON_A_CPU
@pytest.mark.parametrize(("name", "problem", "tile"), OVER_MANY_KEYS)
def test_without_a_vote_maxima_are_of_floats_as_long_as_one_is_negative(
    name: str, problem: Problem, tile: Tile, libraries: together.Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over so many keys that floats and integers have several steps each."""
    monkeypatch.setitem(inputs.DISTRIBUTIONS, "rising_scores", rising_scores)
    scores = ("normal", "negative_scores", "rising_scores")
    launch = cpu_run.launcher(libraries[name, problem, tile], problem)
    verdict = gates.gate(launch, problem, distributions=scores, device="cpu", repeats=1)
    assert verdict.passed, f"{verdict.check}: {verdict.reason}"
