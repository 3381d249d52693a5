"""Detectors find a thing where it stands and nowhere else: two texts written by hand, one with it and one without."""

from dataclasses import replace

import pytest

from harness.expressibility import verdicts
from harness.expressibility.claims import Detector
from harness.operators.attention.claims import (
    beyond,
    copies,
    cuda,
    hopper,
    ladders,
    plain,
    products,
    roles,
    shared_memory,
    tlx,
)
from harness.operators.attention_backward import claims as backward

WITH, WITHOUT = True, False
TTGIR_LOOP = """
    %s = tt.dot %q, %k
    scf.for %i = %a to %b {
      {first}
      {second}
      scf.yield %x
    } {tt.num_stages = 2}
    %o = tt.dot %p, %v
"""
COPY, DOT = "%c = ttg.async_copy_global_to_local %ptr", "%d = tt.dot %p, %v"


def loop(first: str, second: str) -> str:
    return TTGIR_LOOP.replace("{first}", first).replace("{second}", second)


def rotated(*words: str) -> str:
    """Machine code of a loop whose branch goes back to its second instruction."""
    said = ["MOV R1, c[0x0][0x28]", *words, "BRA 0x0010"]
    lines = [f"        /*{16 * n:04x}*/                   {word} ;   /* 0x0 */" for n, word in enumerate(said)]
    return "\n".join(["                Function : k", *lines])


@pytest.mark.parametrize(
    ("detector", "text", "times", "lines"),
    [
        # An iteration that begins behind the branch is read on from the head.
        (
            Detector("sass", r"HGMMA MUFU\.EX2 WAIT", in_loop=True, order=r"HGMMA|WAIT|MUFU\.EX2"),
            rotated("WAIT gsb0", "HGMMA R4", "MUFU.EX2 R1"),
            1,
            ["WAIT HGMMA MUFU.EX2 WAIT HGMMA MUFU.EX2"],
        ),
        # Of several regions the fullest counts.
        (
            Detector("ptx", "x", within=("begin", "end")),
            "begin\nx\nend\nx\nx\nbegin\nx\nx\nend\nbegin\nx\nx\nx",
            2,
            ["x  x2"],
        ),
        (Detector("sass", "LDSM", order="HMMA|LDSM"), "LDSM\nHMMA\nHMMA\nLDSM", 2, ["LDSM HMMA x2 LDSM"]),
        (Detector("sass", "HMMA|LDSM"), "HMMA\nLDSM\nHMMA", 3, ["HMMA  x2", "LDSM"]),
        (Detector("words", "error"), "", 0, []),
    ],
)
def test_what_is_found_is_counted_and_shown(detector: Detector, text: str, times: int, lines: list[str]) -> None:
    assert verdicts.find(detector, {detector.text: text}) == verdicts.Found(times, lines)


def test_a_program_that_did_not_compile_lacks_nothing() -> None:
    with pytest.raises(ValueError, match=r"did not compile.*range must be"):
        verdicts.find(roles.NUMBERED, {"words": "error: range must be a power of 2"})


def test_an_error_is_the_first_line_that_says_so() -> None:
    words = "module {\n  %0 = tt.load\n}\nx.py:3:0: error: Failures have been detected\nnote: Pipeline failed"
    assert verdicts.first_error(words) == "x.py:3:0: error: Failures have been detected"


def lines(*words: str) -> str:
    return "\n".join(words)


PRODUCT, COMMIT = "wgmma.mma_async.sync.aligned.m64n64k16 {%r1}, ", "wgmma.commit_group.sync.aligned;"
STORE = "st.global.b32 [%rd1], %r1;"
WAIT_0, WAIT_1 = "wgmma.wait_group.sync.aligned \t0;", "wgmma.wait_group.sync.aligned \t1;"
EX2, MUL, CVT = "ex2.approx.ftz.f32 %f1, %f2;", "mul.f32 %f1, %f2, %f3;", "cvt.rn.bf16x2.f32 %r1, %f1, %f2;"
IN_REGISTERS = f"{PRODUCT}{{%r2}}, %rd1"
MMA = "mma.sync.aligned.m16n8k16 {{ %r1, %r2 }}, {{ %r3, %r4, %r9, %r10 }}, {{ %r{}, %r{} }}, {{ %r1, %r2 }};"
LDSM, HMMA = "LDSM.16.M88.4 R{}, [R1]", "HMMA.16816.F32 R40, R36, R{}, R40"
IN_ROLE = "partition0("
ACQUIRE, RELEASE = "ld.global.gpu.acquire.b32 %r1, [%rd1];", "atom.global.gpu.release.exch.b32 %r1, [%rd1], %r2;"
ADD, DOT_90 = "red.global.gpu.relaxed.add.v4.f32 [%rd2], {%r1};", "%d = ttng.warp_group_dot %p, %v"
DEPBAR = "WARPGROUP.DEPBAR.LE gsb0"
GDESC = "HGMMA.64x64x16.F32 R24, gdesc[UR8], R24"


def rows_of_a_role(coordinate: str) -> str:
    rows = "%r = tt.make_range {end = 128 : i32, start = 64 : i32} : tensor<64xi32>"
    return lines(rows, "%s = tt.splat %row : i32", f"ttng.async_tma_copy_local_to_global %desc[%{coordinate}, %c0]")


def grid(warps: str) -> str:
    return f"nvidia_mma<{{versionMajor = 2, warpsPerCTA = [{warps}]}}>"


def bulk_load(modifier: str = "") -> str:
    return f"cp.async.bulk.tensor.2d.shared::cluster.global{modifier} [%r1]"


@pytest.mark.parametrize(
    ("detector", "having", "lacking"),
    [
        (
            Detector("sass", r"HGMMA WAIT(?: MUFU\.EX2)+ BRA", in_loop=True, order=r"HGMMA|WAIT|MUFU\.EX2|\bBRA\b"),
            rotated("HGMMA R4", "WAIT gsb0", "MUFU.EX2 R1"),
            rotated("WAIT gsb0", "HGMMA R4", "MUFU.EX2 R1"),
        ),
        (ladders.USED_TWICE, lines(MMA.format(5, 6), MMA.format(5, 6)), lines(MMA.format(5, 6), MMA.format(7, 8))),
        (
            replace(ladders.READ_AHEAD, least=1),
            rotated(LDSM.format(8), HMMA.format(12), HMMA.format(8)),
            rotated(LDSM.format(8), HMMA.format(8), HMMA.format(12)),
        ),
        (ladders.PAIRS, grid("4, 2"), grid("8, 1")),
        (ladders.SHUFFLES, rotated("SHFL.BFLY PT, R1, R2", "FADD R1"), rotated("FADD R1")),
        (roles.SHIFTED_TWICE, rows_of_a_role("row"), rows_of_a_role("other")),
        (roles.NUMBERED, "BAR.ARV 0x9, 0x100", "BAR.SYNC.DEFER_BLOCKING 0x0"),
        (
            roles.EMPTY_WAITS,
            "mbarrier.arrive.shared::cta.b64 _, [%r1];",
            "mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 8;",
        ),
        (hopper.RESCALED_BETWEEN, lines(COMMIT, MUL, COMMIT), lines(COMMIT, WAIT_0, MUL, COMMIT)),
        (hopper.IN_FLIGHT_AT_THE_STORE, lines(COMMIT, STORE, WAIT_0), lines(COMMIT, WAIT_0, STORE)),
        (hopper.CONVERTED_IN_FLIGHT, lines(IN_REGISTERS, CVT, WAIT_0), lines(IN_REGISTERS, WAIT_0, CVT)),
        (
            hopper.BEHIND_EXPONENTIALS,
            rotated("MUFU.EX2 R1", "STG.E R1", DEPBAR),
            rotated("STG.E R1", DEPBAR, "MUFU.EX2 R1", "FADD R1", "HMMA R1", DEPBAR),
        ),
        (
            hopper.ONE_BY_ONE,
            rotated(*["HGMMA R4", DEPBAR] * 4),
            rotated(*["HGMMA R4", "HGMMA R4", DEPBAR] * 4),
        ),
        (
            hopper.IN_FLIGHT_IN_A_ROLE,
            lines(IN_ROLE, "{pendings = 1 : i32}", "math.exp2 %1", "{pendings = 0 : i32}"),
            lines("{pendings = 1 : i32}", "math.exp2 %1", "{pendings = 0 : i32}", IN_ROLE),
        ),
        (
            hopper.UNDER_A_PRODUCT_IN_A_ROLE,
            lines("USETMAXREG.TRY_ALLOC 0xe8", GDESC, *["MUFU.EX2 R1"] * 4, DEPBAR),
            lines("USETMAXREG.TRY_ALLOC 0xe8", GDESC, DEPBAR, *["MUFU.EX2 R1"] * 4),
        ),
        (
            hopper.TWICE_IN_FLIGHT,
            lines(*[COMMIT, COMMIT, WAIT_1, WAIT_0] * 2),
            lines(COMMIT, COMMIT, WAIT_1, WAIT_0, COMMIT, WAIT_0),
        ),
        (cuda.IN_FLIGHT, lines(WAIT_1, EX2, WAIT_0), lines(WAIT_1, WAIT_0, EX2)),
        (
            products.EXPONENTIALS_IN_FLIGHT,
            rotated("HGMMA R4", *["MUFU.EX2 R1"] * 8, DEPBAR),
            rotated("HGMMA R4", DEPBAR, *["MUFU.EX2 R1"] * 8, DEPBAR),
        ),
        (copies.COPY_BEFORE_PRODUCT, loop(COPY, DOT), loop(DOT, COPY)),
        (copies.LEFT_IN_FLIGHT, "cp.async.wait_group \t1;", "cp.async.wait_group \t0;"),
        (copies.MULTICAST, bulk_load(".multicast::cluster"), bulk_load()),
        (copies.TWO_BLOCKS, "tcgen05.mma.cta_group::2.kind::f16", "tcgen05.mma.cta_group::1.kind::f16"),
        (
            copies.ARRIVAL_ELSEWHERE,
            "mbarrier.arrive.shared::cluster.b64 _, [%r1];",
            "mbarrier.arrive.shared::cta.b64 _, [%r1];",
        ),
        (
            shared_memory.UNSWIZZLED,
            "swizzled_shared<{vec = 8, maxPhase = 1}>",
            "swizzled_shared<{vec = 8, maxPhase = 8}>",
        ),
        (shared_memory.PADDED, "padded_shared<[64:+8]>", "swizzled_shared<{vec = 8}>"),
        (shared_memory.TRANSPOSING, "ldmatrix.sync.aligned.x4.trans.shared.b16", "ldmatrix.sync.aligned.x4.shared.b16"),
        (
            shared_memory.STORED_AGAIN,
            lines("cp.async.bulk.tensor.2d", "st.shared.v4", PRODUCT),
            lines("cp.async.bulk.tensor.2d", "ldmatrix.sync", "mma.sync.aligned", "st.shared.v4"),
        ),
        (
            tlx.TURNS,
            lines(COMMIT, COMMIT, "bar.arrive 9, 256;", WAIT_1),
            lines(COMMIT, COMMIT, WAIT_1, "bar.arrive 9, 256;"),
        ),
        (plain.BRANCH, "@%p1 bra $L1;", "bra.uni $L1;"),
        (plain.PRODUCTS, "HMMA.16816.F32", "HFMA2.MMA R1"),
        (beyond.RELEASED, "red.release.gpu.add; atom.acquire.gpu.cas", "red.relaxed.gpu.add; atom.acquire.gpu.cas"),
        (backward.ROLES, "shared 8192\nwarps 12", "shared 8192\nwarps 4"),
        (backward.IN_TURN, lines(ACQUIRE, ADD, RELEASE), lines(ACQUIRE, RELEASE, ADD)),
        (
            backward.STRAIGHT_FROM_EXP2,
            lines("math.exp2 %1", DOT_90, DOT_90, "ttg.local_alloc %2"),
            lines("math.exp2 %1", "ttg.local_alloc %2", DOT_90, DOT_90),
        ),
        (
            backward.BEFORE_THE_NEXT,
            lines("ttng.async_tma_store_wait", "ttng.async_tma_reduce", "scf.yield"),
            lines("ttng.async_tma_reduce", "ttng.async_tma_store_wait", "scf.yield"),
        ),
        (backward.WRITTEN, "cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"),
        (beyond.SCALED, "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", "tcgen05.mma.cta_group::1.kind::f8f6f4"),
    ],
)
def test_a_detector_of_the_matrix_finds_the_thing_and_only_the_thing(
    detector: Detector, having: str, lacking: str
) -> None:
    found = [verdicts.find(detector, {detector.text: text}).times >= detector.least for text in (having, lacking)]
    assert found == [WITH, WITHOUT]
