"""The order of instructions is read right: loops, what is in flight, what is in a lock; with and without the thing."""

import pytest

from harness.build import instruction_order as order

QK = ["HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT", "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0"]
PV = [
    "HGMMA.64x128x16.F32.BF16 R88, R4, gdesc[UR8].tnspB, R88",
    "HGMMA.64x128x16.F32.BF16 R88, R8, gdesc[UR8], R88, gsb0",
]
MAXIMA = ["FMNMX R0, R24, R25, !PT"] * 6
SHUFFLES = ["SHFL.BFLY PT, R1, R0, 0x1, 0x1f"] * 2
EXPONENTIALS = ["MUFU.EX2 R24, R24"] * 10
WAIT_1, WAIT_0 = "WARPGROUP.DEPBAR.LE gsb0, 0x1", "WARPGROUP.DEPBAR.LE gsb0, 0x0"
ENTER, LEAVE = "BAR.SYNC.DEFER_BLOCKING 0x3, 0x100", "BAR.ARV 0x4, 0x100"
SOFTMAX = [*MAXIMA, *SHUFFLES, *EXPONENTIALS]


def listing(*blocks: list[str]) -> str:
    """A listing of one function: for each block a loop over its instructions, and two more around it."""
    lines, address = ["\t\tFunction : kernel"], 0

    def add(instruction: str) -> None:
        nonlocal address
        lines.append(f"        /*{address:04x}*/                   {instruction} ;   /* 0x00000000000079c5 */")
        address += 16

    add("MOV R1, c[0x0][0x28]")
    for block in blocks:
        start = address
        for instruction in block:
            add(instruction)
        add(f"@P0 BRA 0x{start:x}")
        add("@P1 BRA 0x%x" % (address + 32))
        add("NOP")
    add("EXIT")
    return "\n".join(lines)


def counts(code: order.Code | None) -> tuple[int, int, int]:
    """Exponentials, maxima and shuffles."""
    found = order.count(code or [])
    return found["exponentials"], found["maxima"], found["shuffles"]


def main_loop(*blocks: list[str]) -> list[order.Instruction]:
    found = order.main_loop(listing(*blocks))
    assert found is not None
    return found


def test_a_loop_is_what_stands_from_the_target_to_the_branch() -> None:
    (code,) = order.functions(listing(["FADD R0, R0, R1"], ["FMUL R0, R0, R1", "FFMA R0, R1, R2, R0"]))
    assert [[one.opcode for one in loop] for loop in order.loops(code)] == [["FADD", "BRA"], ["FMUL", "FFMA", "BRA"]]
    assert "NOP" not in {one.opcode for one in code}


def test_what_never_executes_is_not_there() -> None:
    (code,) = order.functions(listing(["@!PT LDS RZ, [RZ]", "@P0 FADD R0, R0, R1"]))
    assert [one.opcode for one in code][1:3] == ["FADD", "BRA"]


def test_the_main_loop_is_the_shortest_with_products_and_exponentials() -> None:
    clean, masked, loads = (
        [*QK, WAIT_0, *SOFTMAX],
        [*QK, WAIT_0, "FSEL R0, R1, R2, P0", *SOFTMAX],
        ["UTMALDG.4D [UR8], [UR4]"],
    )
    assert len(main_loop(masked, clean, loads)) == len(clean) + 1
    assert order.main_loop(listing(loads, [*EXPONENTIALS], QK)) is None
    assert order.main_loop(listing([*QK, *EXPONENTIALS[:2]])) is None, "a rescale alone is no softmax"


def test_the_main_loop_is_an_inner_one() -> None:
    inner = [*QK, WAIT_0, *SOFTMAX]
    text = listing(inner).splitlines()
    outer = "        /*1000*/                   @P2 BRA 0x0 ;   /* 0x00000000000079c5 */"
    found = order.main_loop("\n".join([*text, outer]))
    assert found is not None
    assert len(found) == len(inner) + 1


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param([*QK, WAIT_0, *SOFTMAX, *PV, WAIT_0], (0, 0, 0), id="every product waited for"),
        pytest.param([*QK, *PV, WAIT_1, *SOFTMAX, WAIT_0], (10, 6, 2), id="softmax under P V"),
        pytest.param([*QK, *PV, WAIT_1, *MAXIMA, WAIT_0, *SHUFFLES, *EXPONENTIALS], (0, 6, 0), id="the wait moved up"),
        pytest.param([WAIT_0, *QK, *PV, WAIT_1, *SOFTMAX], (10, 6, 2), id="rotated: the wait of the step before leads"),
        pytest.param([*EXPONENTIALS, WAIT_0, *QK, *PV, WAIT_1, *MAXIMA], (10, 6, 0), id="rotated: half of it leads"),
        pytest.param([*PV, WAIT_0, *QK, *SOFTMAX], (10, 6, 2), id="the next Q K^T in flight over the end of a step"),
    ],
)
def test_what_runs_under_a_product(loop: list[str], expected: tuple[int, int, int]) -> None:
    assert counts(order.under_products(main_loop(loop))) == expected


def test_a_group_is_in_flight_before_it_is_whole() -> None:
    loop = [QK[0], *SOFTMAX, QK[1], WAIT_0]
    assert counts(order.under_products(main_loop(loop))) == (10, 6, 2)


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param([*QK, WAIT_0, *MAXIMA, ENTER, *EXPONENTIALS, LEAVE, *PV, WAIT_0], (10, 0, 0), id="locked"),
        pytest.param([*QK, WAIT_0, *SOFTMAX, ENTER, LEAVE, *PV, WAIT_0], (0, 0, 0), id="an empty lock"),
        pytest.param([*EXPONENTIALS, LEAVE, *PV, WAIT_0, *QK, WAIT_0, *MAXIMA, ENTER], (10, 0, 0), id="rotated"),
    ],
)
def test_what_stands_in_a_lock(loop: list[str], expected: tuple[int, int, int]) -> None:
    assert counts(order.in_lock(main_loop(loop))) == expected


def test_a_loop_without_named_barriers_has_no_lock() -> None:
    assert order.in_lock(main_loop([*QK, WAIT_0, *SOFTMAX])) is None
    assert order.in_lock(main_loop([*QK, WAIT_0, ENTER, *SOFTMAX])) is None


def test_serialized_products_are_groups_of_one() -> None:
    alone = [QK[1], WAIT_0, QK[1], WAIT_0, PV[1], WAIT_0]
    assert order.is_serialized(main_loop([*alone, *SOFTMAX]))
    assert not order.is_serialized(main_loop([*QK, WAIT_0, *SOFTMAX, *PV, WAIT_0]))


def test_a_row_holds_what_is_read() -> None:
    found = order.read(listing([*QK, *PV, WAIT_1, *MAXIMA, *SHUFFLES, WAIT_0, *EXPONENTIALS, "STL [R1], R2"]))
    assert (found["instructions"], found["products"], found["local_memory"]) == (26, 4, 1)
    assert not found["serialized"]
    assert found["in_lock"] is None
    assert found["all"] == {"exponentials": 10, "maxima": 6, "shuffles": 2, "conversions": 0}
    assert found["under_products"] == {"exponentials": 0, "maxima": 6, "shuffles": 2, "conversions": 0}
    assert found["sequence"] == "4 wgmma, wait 1, (6 max, 2 shfl), wait 0, (10 ex2), local store"


def test_a_release_to_the_cluster_is_seen() -> None:
    release = ["MEMBAR.ALL.GPU", "ERRBAR", "SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R12+URZ], RZ"]
    found = order.read(listing([*QK, WAIT_0, *EXPONENTIALS, *release]))
    assert found["sequence"] == "2 wgmma, wait 0, (10 ex2), fence of the GPU, mbarrier arrive"


def test_a_kernel_without_wgmma_has_no_such_field() -> None:
    assert order.read(listing(["HMMA.16816.F32.BF16 R4, R8, R12, R4", *SOFTMAX])) is None


def test_registers_asked_for_are_read() -> None:
    asked = ["USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0", "USETMAXREG.DEALLOC.CTAPOOL 0x18"]
    assert order.setmaxnreg(listing(asked)) == [24, 240]
    assert order.setmaxnreg(listing(QK)) == []
