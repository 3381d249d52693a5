"""Instruction families, each in a small kernel: right results, and planted bugs by name.

The same kernels run on a GPU of compute capability 9.0 where there is one, which holds the CPU's instructions, TMA
boxes, swizzles and wgmma descriptors against the hardware's.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cuda_kernels import build
from tests.support import cpu_kernels
from tests.support.cpu_kernels import KERNELS, launch

SEEDS = (0, 1, 2, 3)
TYPES = {"__half": torch.float16, "__nv_bfloat16": torch.bfloat16, "__nv_fp8_e4m3": torch.float8_e4m3fn}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("wgmma needs a GPU of compute capability 9.0")
    return request.param


def names(diagnosis: str) -> list[str]:
    return [line.partition(":")[0] for line in diagnosis.splitlines()]


def product(*how, bug: str = "NONE", seed: int = 0, device: str = "cpu", **named) -> tuple[str, Tensor, Tensor]:
    constants = cpu_kernels.product(*how, **named)
    dtype, columns, depth = TYPES[constants["ELEMENT_TYPE"]], constants["COLUMNS"], constants["DEPTH"]
    a_is_transposed, b_is_transposed = constants["A_TRANSPOSED"], constants["B_TRANSPOSED"]
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(*((depth, 64) if a_is_transposed else (64, depth)), generator=generator).to(dtype)
    b = torch.randn(*((depth, columns) if b_is_transposed else (columns, depth)), generator=generator).to(dtype)
    d = torch.full((64, columns), torch.nan)
    tensors = [(a, "in"), (b, "in"), (d, "out")]
    said = launch("wgmma_product", tensors, bug=bug, seed=seed, device=device, **constants)
    expected = (a.double().T if a_is_transposed else a.double()) @ (b.double() if b_is_transposed else b.double().T)
    return said, d, expected


@pytest.mark.parametrize("how", cpu_kernels.PRODUCTS, ids=lambda how: "-".join(map(str, how)))
def test_a_wgmma_multiplies_what_its_descriptors_say(how: tuple, device: str) -> None:
    said, d, expected = product(*how, device=device)
    assert said == ""
    # The hardware cuts the products of fp8 to 13 fractional bits below the largest one before it adds them.
    coarse = device == "cuda" and how[0] == "__nv_fp8_e4m3"
    torch.testing.assert_close(d.double(), expected, rtol=1e-4, atol=5e-2 if coarse else 1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_is_read_as_a_whole_until_every_warp_has_waited(seed: int) -> None:
    """A warp that has waited may not write its own 16 rows of A before the other warps have waited too."""
    assert "race" in names(product(bug="EARLY_OVERWRITE", seed=seed)[0])
    assert product(bug="ORDERED_OVERWRITE", seed=seed)[0] == ""


MN_MAJOR = {"transpose_a": 1, "transpose": 1, "columns": 128}
A_TILE, B_TILE = 0x880, 0x2880
"""Where the tiles of 64 by 64 elements begin if they are misaligned."""


@pytest.mark.parametrize(
    ("how", "operand"),
    [({}, A_TILE), ({"rs": 1}, B_TILE), (MN_MAJOR, A_TILE), ({**MN_MAJOR, "transpose_a": 0, "rs": 1}, B_TILE)],
    ids=["A", "B, A in registers", "A, MN-major", "B, MN-major, A in registers"],
)
def test_a_wgmma_of_a_tile_that_begins_inside_a_swizzle_pattern_is_named(how: dict[str, int], operand: int) -> None:
    """TMA and ldmatrix go by the address, but the hardware's wgmma would need a base offset in the descriptor."""
    said = product(**how, bug="MISALIGNED_TILE")[0]
    assert names(said) == ["misaligned_access"]
    assert f"the operand at shared address {operand:#x} begins in row 1 of its swizzle's pattern" in said


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lane_may_fence_more_often_than_the_others(seed: int) -> None:
    said, d, expected = product(bug="FENCED_WRITE", seed=seed)
    assert said == ""
    torch.testing.assert_close(d.double(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("how", "bug"),
    [
        ({}, "WRONG_STRIDE"),
        (MN_MAJOR, "WRONG_STRIDE"),  # k goes on as in a K-major operand
        (MN_MAJOR, "EXCHANGED_STRIDES"),
        ({"transpose": 1, "columns": 128}, "EXCHANGED_STRIDES"),
    ],
)
def test_a_wrong_stride_in_a_descriptor_shows(how: dict[str, int], bug: str) -> None:
    """Reads beyond the operand: other data, or nothing that was ever written."""
    said, d, expected = product(**how, bug=bug)
    assert names(said) == ["shared_out_of_range"] or not torch.allclose(d.double(), expected, atol=1e-2)


def ring(rows: int = 64 * 7, **rest) -> tuple[str, Tensor, Tensor]:
    given = torch.randn(rows, 32, generator=torch.Generator().manual_seed(0))
    out = torch.full((rows, 32), torch.nan)
    return launch("tma_ring", [(given, "in"), (out, "out")], [rows], **rest), out, given


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rows", [64 * 7, 64 * 3 + 5])
def test_a_ring_of_tma_copies_hands_on_every_row(rows: int, seed: int, device: str) -> None:
    """A ragged tail is read as zeros and not written."""
    said, out, given = ring(rows, seed=seed, device=device)
    assert said == ""
    assert torch.equal(out, 2 * given)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_barrier_of_the_block_takes_its_count(seed: int) -> None:
    said, out, given = ring(bug="COUNTED_BARRIER", seed=seed)
    assert said == ""
    assert torch.equal(out, 2 * given)


def boxes(x: int, y: int, swizzle: str = "none", columns: int = 32, **rest) -> tuple[str, Tensor, Tensor, Tensor]:
    given = torch.arange(1.0, 1.0 + 12 * 40).reshape(12, 40)
    out, seen = torch.zeros(12, 40), torch.full((8, columns), torch.nan)
    tensors = [(given, "in"), (out, "scratch"), (seen, "out")]
    said = launch("tma_boxes", tensors, [x, y, 40, 12], COLUMNS=columns, SWIZZLE=f"Swizzle::{swizzle}", **rest)
    return said, given, out, seen


@pytest.mark.parametrize(("x", "y"), [(0, 0), (-4, 0), (-8, -3), (28, 9), (36, -8), (52, 0)])
@pytest.mark.parametrize(("swizzle", "columns"), cpu_kernels.BOXES)
def test_a_box_over_the_edge_reads_zeros_and_writes_nothing_there(
    x: int, y: int, swizzle: str, columns: int, device: str
) -> None:
    """Zeros are read outside the tensor on every side; nothing is written beyond its end."""
    said, given, out, seen = boxes(x, y, swizzle, columns, device=device)
    assert said == ""
    around = torch.nn.functional.pad(given, (64, 64, 64, 64))
    assert torch.equal(seen, around[64 + y : 72 + y, 64 + x : 64 + x + columns])
    inside = torch.zeros_like(around)
    if x >= 0 and y >= 0:  # a store may not begin before the tensor's start
        inside[64 + y : 72 + y, 64 + x : 64 + x + columns] = seen
    assert torch.equal(out, inside[64:76, 64:104])


@pytest.mark.parametrize(("x", "y", "dimension"), [(-4, 0, 0), (0, -3, 1), (36, -8, 1)])
def test_a_store_that_begins_before_the_tensor_is_named(x: int, y: int, dimension: int) -> None:
    said, _, out, _ = boxes(x, y, bug="NEGATIVE_STORE")
    assert names(said) == ["negative_coordinate"]
    assert f"in dimension {dimension}" in said
    assert not out.any()


@pytest.mark.parametrize("x", [-2, 1, 30])
def test_a_box_that_begins_within_16_bytes_is_named(x: int) -> None:
    said, _, out, _ = boxes(x, 0)
    assert names(said)[0] == "misaligned_access"
    assert f"begins at element {x}, of 4 bytes" in said
    assert not out.any()


def plain_copies(**rest) -> tuple[str, Tensor, Tensor, Tensor]:
    given, out, told = torch.arange(256.0).reshape(2, 1, 128), torch.full((2, 2, 128), torch.nan), torch.zeros(2, 2)
    return launch("plain_copies", [(given, "in"), (out, "scratch"), (told, "out")], **rest), given, out, told


@pytest.mark.parametrize("seed", SEEDS)
def test_bulk_copies_without_a_tensor_map_arrive_whole(seed: int, device: str) -> None:
    said, given, out, told = plain_copies(seed=seed, device=device)
    assert said == ""
    assert torch.equal(out, given.expand(2, 2, 128))
    assert told.tolist() == [[0, 2], [128, 2]]


def test_a_store_that_was_only_read_is_not_yet_written() -> None:
    said, given, out, told = plain_copies(bug="EARLY_READ")
    assert said == ""
    assert torch.equal(out, given.expand(2, 2, 128))
    assert told[:, 0].isnan().all()


def test_a_bulk_copy_of_nothing_is_named() -> None:
    assert names(plain_copies(bug="TOO_FEW_BYTES")[0])[0] == "bad_operand"


def interleaved_bytes(**rest) -> tuple[str, list[int]]:
    out = torch.zeros(64, dtype=torch.uint8)
    return launch("interleaved_bytes", [(out, "out")], **rest), out.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_two_warps_may_write_bytes_of_one_word(seed: int, device: str) -> None:
    assert interleaved_bytes(seed=seed, device=device) == ("", [*range(32, 64), *range(32)])


@pytest.mark.parametrize("bug", ["MISSING_BARRIER", "WRONG_STRIDE", "EARLY_REUSE"])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_warps_in_one_byte_are_a_race(bug: str, seed: int) -> None:
    assert "race" in names(interleaved_bytes(bug=bug, seed=seed)[0])


@pytest.mark.parametrize(
    ("bug", "reason"),
    [("TOO_MANY_THREADS", "96 threads, more than the launch bounds' 64"), ("TOO_TALL_A_GRID", "at most 65535 for y")],
)
def test_a_launch_that_a_gpu_refuses_is_named(bug: str, reason: str) -> None:
    said, out = interleaved_bytes(bug=bug)
    assert names(said) == ["bad_launch"]
    assert reason in said
    assert not any(out)


def flags(blocks: int = 1, further: int = 0, plain: int = 0, **rest) -> tuple[str, list[float]]:
    out = torch.full((blocks,), torch.nan)
    tensors = [(torch.zeros(blocks, dtype=torch.int32), "scratch"), (torch.zeros(blocks), "scratch"), (out, "out")]
    return launch("global_flags", tensors, [blocks, further, plain], **rest), out.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_may_wait_for_a_flag_in_global_memory(seed: int, device: str) -> None:
    assert flags(seed=seed, device=device) == ("", [1])
    assert flags(blocks=2, further=1, seed=seed, os_threads=2, device=device) == ("", [2, 1])


@pytest.mark.timeout(60, method="thread")  # a hang in the runtime sees no signal
@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_may_wait_for_a_flag_by_plain_loads(seed: int) -> None:
    assert flags(plain=1, seed=seed) == ("", [1])
    assert flags(plain=1, blocks=2, further=1, seed=seed, os_threads=2) == ("", [2, 1])


@pytest.mark.timeout(60, method="thread")  # a hang in the runtime sees no signal
@pytest.mark.parametrize(("plain", "mnemonic"), [(0, "atom_add"), (1, "ld_global")])
def test_a_deadlock_at_a_flag_names_its_address(plain: int, mnemonic: str) -> None:
    said, _ = flags(plain=plain, bug="NOTHING_SET", os_threads=2, blocks=2)
    assert set(names(said)) == {"deadlock"}
    where = rf"\(global address 0x\w+, which holds 0, element [01] from the start of tensor [0{plain}]"
    assert re.search(f"{mnemonic} {where}", said)


@pytest.mark.timeout(60, method="thread")  # a hang in the runtime sees no signal
@pytest.mark.parametrize("by_votes", [0, 1])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_wait_for_a_flag_in_shared_memory_is_a_race(by_votes: int, seed: int) -> None:
    assert set(names(launch("shared_flag", [], [by_votes], seed=seed))) == {"race"}
    said = launch("shared_flag", [], [by_votes], seed=seed, bug="NOTHING_SET")
    assert names(said) == ["deadlock"]
    assert re.search(r"ld_shared \(shared address 0x400, which holds 0\)", said)


ENDLESS = ("VOTES", "READS", "WRITES", "COUNTS", "ARITHMETIC", "BARRIERS")


def endless(way: int, **rest) -> str:
    tensors = [(torch.ones(64), "in"), (torch.zeros(64), "out"), (torch.zeros(1, dtype=torch.int32), "scratch")]
    return launch("endless_loop", tensors, [way], **rest)


@pytest.mark.timeout(60, method="thread")  # a hang in the runtime sees no signal
@pytest.mark.parametrize("way", ENDLESS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_loop_for_ever_is_named(way: str, seed: int) -> None:
    """Its line, its warp, and who waits for it: whether it has instructions in it or none, and whatever they do."""
    (said,) = (line for line in endless(ENDLESS.index(way) + 1, patience=0.2, seed=seed).splitlines())
    found = re.search(r"^endless_loop: .* \[endless_loop\.cu:(\d+).*, warp (\d), lane \d+\]$", said)
    assert found, said
    lines = (KERNELS / "endless_loop.cu").read_text().splitlines()
    assert any(f"way == {way}" in line for line in lines[int(found[1]) - 2 : int(found[1])]), said
    if way != "BARRIERS":
        assert found[2] == "1"
    if way != "BARRIERS" and not seed:
        assert re.search(
            r"warp 0: all lanes at endless_loop\.cu:\d+ bar_sync \(barrier 0, 32 of 64 threads there\)", said
        )
        assert re.search(r"warp 1: .*not waiting", said)


def test_after_a_loop_for_ever_the_library_is_as_good_as_before() -> None:
    assert names(endless(ENDLESS.index("ARITHMETIC") + 1, patience=0.2)) == ["endless_loop"]
    assert endless(0) == ""


@pytest.mark.timeout(60, method="thread")  # a hang in the runtime sees no signal
@pytest.mark.parametrize("plain", [0, 1])
def test_blocks_that_wait_for_later_ones_are_refused(plain: int) -> None:
    said, _ = flags(plain=plain, blocks=2, further=1, os_threads=1)
    assert names(said) == ["blocks_not_resident"]
    assert "not started: 1 blocks" in said


def exchange(**rest) -> tuple[str, Tensor, Tensor]:
    given, out = torch.arange(256.0).reshape(2, 128), torch.full((2, 128), torch.nan)
    return launch("cluster_exchange", [(given, "in"), (out, "out")], **rest), out, given


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_a_cluster_exchange_shared_memory(seed: int, device: str) -> None:
    said, out, given = exchange(seed=seed, device=device)
    assert said == ""
    assert torch.equal(out, given + given.flip(0))


def roles(blocks: int = 1, **rest) -> tuple[str, Tensor]:
    out = torch.zeros(16, dtype=torch.int32)
    return launch("warpgroup_roles", [(out, "out")], BLOCKS=blocks, **rest), out


@pytest.mark.parametrize("seed", SEEDS)
def test_roles_meet_at_named_barriers_and_move_registers(seed: int, device: str) -> None:
    said, out = roles(seed=seed, device=device)
    assert said == ""
    assert out.tolist() == [1, 2] * 8


WRONG_USES = {
    ("a wgmma", product): [
        ("MISSING_WAIT", "copy_in_flight"),
        ("WRONG_PHASE", "copy_in_flight"),
        ("MISSING_FENCE", "missing_wgmma_fence"),
        ("LATE_WRITE", "missing_wgmma_fence"),
        ("MISSING_INIT_FENCE", "missing_proxy_fence"),
        ("MISSING_COMMIT", "wgmma_in_flight"),
        ("EARLY_READ", "wgmma_accumulator_read"),
        ("EARLY_MAX", "wgmma_accumulator_read"),
        ("EARLY_SHUFFLE", "wgmma_accumulator_read"),
        ("EARLY_STORE", "wgmma_accumulator_read"),
        ("EARLY_STAGING", "wgmma_accumulator_read"),
        ("EARLY_WRITE", "wgmma_accumulator_written"),
        ("EARLY_SCALE", "wgmma_accumulator_written"),
        ("OTHER_DESCRIPTOR", "divergence"),
        ("OTHER_SCALE", "divergence"),
        ("EARLY_RELEASE", "copy_in_flight"),
        ("UNORDERED_LANES", "race"),
        ("HIDDEN_READ", "missing_proxy_fence"),
    ],
    ("a fragment of a wgmma", lambda **rest: product(rs=1, **rest)): [
        ("LATE_FRAGMENT", "missing_wgmma_fence"),
        ("EARLY_FRAGMENT", "wgmma_fragment_written"),
    ],
    ("a ring", ring): [
        ("MISSING_WAIT", "copy_in_flight"),
        ("MISSING_FENCE", "missing_proxy_fence"),
        ("MISSING_READ_FENCE", "missing_proxy_fence"),
        ("MADE_UP_POLICY", "bad_operand"),
        ("LATE_WRITE", "missing_proxy_fence"),
        ("MISSING_INIT_FENCE", "missing_proxy_fence"),
        ("MISSING_BARRIER", "mbarrier_not_initialized"),
        ("MISSING_ARRIVAL", "deadlock"),
        ("MISSING_COMMIT", "copy_in_flight"),
        ("WRONG_PHASE", "deadlock"),
        ("WRONG_COUNT", "barrier_count_mismatch"),
        ("TOO_FEW_BYTES", "mbarrier_wrong_bytes"),
        ("TOO_MANY_BYTES", "mbarrier_wrong_bytes"),
        ("OVER_ARRIVAL", "mbarrier_over_arrival"),
        ("EARLY_RELEASE", "race"),
        ("ONE_LANE_WAITS", "race"),
        ("EARLY_REUSE", "race"),
        ("EARLY_RETURN", "copy_in_flight"),
    ],
    ("a cluster", exchange): [
        ("MISSING_BARRIER", "mbarrier_not_initialized"),
        ("MISSING_BARRIER", "cluster_block_not_started"),
        ("MISSING_ARRIVAL", "deadlock"),
        ("EARLY_RETURN", "cluster_block_returned"),
        ("MULTICAST_BEYOND", "bad_operand"),
        ("MULTICAST_TO_NOBODY", "bad_operand"),
        ("PLAIN_STORE", "bad_operand"),
        ("PLAIN_ARRIVAL", "bad_operand"),
        ("REMOTE_WAIT", "bad_operand"),
    ],
    ("named barriers and registers", roles): [
        ("MISSING_BARRIER", "race"),
        ("MISSING_ARRIVAL", "deadlock"),
        ("TOO_MANY_REGISTERS", "register_pool_exhausted"),
        ("ONE_WARP_ALONE", "divergence"),
    ],
    ("two blocks of registers", lambda **rest: roles(2, **rest)): [("NONE", "register_pool_exhausted")],
}
"""Of what, and how it is launched -> bugs, each with the name of the diagnosis."""


@pytest.mark.parametrize(
    ("run", "bug", "name"),
    [
        pytest.param(run, bug, name, id=f"{what}-{bug}-{name}")
        for (what, run), bugs in WRONG_USES.items()
        for bug, name in bugs
    ],
)
def test_a_wrong_use_is_named(run: Callable[..., Any], bug: str, name: str) -> None:
    """A misuse of a wgmma by the first seed of the scheduler, any other by one of four. And where it is: in the
    kernel's file, not in a wrapper's."""
    told = (run(bug=bug, seed=seed)[0] for seed in (SEEDS[:1] if run is product else SEEDS))
    said = next((said for said in told if name in names(said)), "")
    assert said
    assert not re.search(r"[\w.]+(?<!\.cu):\d+(?= \w+, block)", said), said
    if name == "wgmma_accumulator_read":
        assert "in flight: wgmma_product.cu" in said


def warp_product(type_name: str = "__half", column_major: int = 0, **rest) -> tuple[str, Tensor, Tensor, list[int]]:
    a, b = torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(0)).to(TYPES[type_name])
    c, counters = torch.full((16, 16), torch.nan), torch.zeros(4, dtype=torch.int32)
    tensors = [(a, "in"), (b, "in"), (c, "out"), (counters, "scratch")]
    said = launch("warp_product", tensors, [column_major], ELEMENT_TYPE=type_name, seed=5, **rest)
    return said, c.double(), a.double() @ (b.T if column_major else b).double(), counters.tolist()


@pytest.mark.parametrize("type_name", ["__half", "__nv_bfloat16"])
@pytest.mark.parametrize("column_major", [0, 1])
def test_a_warp_multiplies_and_counts(type_name: str, column_major: int, device: str) -> None:
    said, c, product_of_both, counters = warp_product(type_name, column_major, device=device)
    assert said == ""
    torch.testing.assert_close(c, product_of_both + 1, atol=1e-5, rtol=1e-5)
    assert counters == [5, 0, 7, 0]


def test_wmma_of_rows_that_are_no_multiple_of_16_bytes_is_named() -> None:
    said = warp_product(bug="WRONG_STRIDE")[0]
    assert names(said) == ["misaligned_access"]
    assert "rows of 40 bytes" in said


def test_a_deadlock_says_who_waits() -> None:
    said = ring(bug="MISSING_ARRIVAL")[0]
    assert re.search(r"warp 4: lane \d+ at tma_ring.cu:\d+ mbarrier_try_wait_parity \(mbarrier 0x\w+, parity 0", said)
    assert "4 of 4 arrivals" in said


def test_a_store_left_in_flight_names_its_source() -> None:
    assert re.search(r"^copy_in_flight: .* 4096 bytes at shared address 0x\w+", ring(bug="MISSING_COMMIT")[0], re.M)


def test_a_missing_fence_names_both_accesses() -> None:
    """That of the reader, and the copy's that overwrites what was read."""
    said = ring(bug="MISSING_READ_FENCE")[0]
    source = (KERNELS / "tma_ring.cu").read_text().splitlines()
    found = re.search(
        r"missing_proxy_fence: .*read of warp [0-3], lane \d+ at tma_ring.cu:(\d+)"
        r".*\[tma_ring.cu:(\d+) cp_async_bulk_tensor_load_cache_hint, .*warp 4",
        said,
    )
    assert found, said
    assert "ld_shared" in source[int(found[1]) - 1]
    assert "cp_async_bulk_tensor_load" in source[int(found[2]) - 1]


def test_a_tensor_map_that_the_driver_refuses_is_named() -> None:
    given, out = torch.zeros(64, 33)[:, 1:], torch.zeros(64, 32)
    assert names(launch("tma_ring", [(given, "in"), (out, "out")], [64])) == ["bad_tensor_map"]


def test_tensor_maps_stay_in_the_parameters() -> None:
    """On a GPU a copy of one on the stack is an illegal instruction; a CPU cannot tell."""
    users = [
        source
        for path in [*build.HERE.rglob("*.cu"), *KERNELS.glob("*.cu")]
        if "cp_async_bulk_tensor_" in (source := path.read_text())
    ]
    kernels = [line for source in users for line in source.splitlines() if line.startswith("KERNEL(")]
    assert len(kernels) >= len(users) > 10
    assert [line for line in kernels if "GRID_CONSTANT" not in line] == []
    assert not any(re.search(r"\bTensorMap \w+( =|\{|\()", source) for source in users)


def wrappers(folder: Path) -> set[tuple[str, str]]:
    """(header, function) for what the headers of a folder offer, by macros too."""
    found = set()
    for header in folder.glob("*.cuh"):
        text = re.sub(r"//.*", "", header.read_text())
        declared = r"^ *(?:template <[^;{]*?>\s+)?(?:DEVICE [^;{}()=]*?\b|(?:inline )?Error )(\w+)(?:<[^()]*?>)?\("
        names = [*re.findall(declared, text, re.MULTILINE), *re.findall(r"^[A-Z_]+\((\w+),", text, re.MULTILINE)]
        found |= {(header.name, name) for name in names if name.islower()}
    return found


def test_every_wrapper_has_a_twin_of_its_name_and_is_executed_somewhere() -> None:
    """By a kernel of the project or of tests/kernels/cpu_kernels, which all run on a CPU: with the types that kernels
    give it, then."""
    offered = wrappers(build.HERE / "ptx") - {("kernel.cuh", "current")}
    assert offered == wrappers(build.HERE / "cpu" / "ptx")
    assert {("math.cuh", "cvt_rn"), ("wmma.cuh", "wmma_load_a_row"), ("kernel.cuh", "launch_kernel")} <= offered
    assert len(offered) > 90
    sources = [*build.HERE.rglob("*.cu"), *build.HERE.rglob("*.cuh"), *KERNELS.glob("*.cu")]
    kernels = [source.read_text() for source in sources if source.parent.name != "ptx"]
    called = {name for text in kernels for name in re.findall(r"\b(\w+)(?=[<(])", text)}
    assert {name for _, name in offered} - called == set()
