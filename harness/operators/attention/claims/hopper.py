"""What the rungs of the ladder hopper need of core Triton and Gluon, beside roles, barriers, products and tiles."""

from dataclasses import replace

from harness.expressibility.claims import Detector, Probe, Proof, forms, in_gluon, in_triton
from harness.operators.attention.claims.twin import Twin, twins

TILE = "128x128-s2-w8"
"""For kernels of core Triton, because the reference tiles of these rungs are not powers of two."""
BITCAST = (
    "A bitcast turns the scores into integers. In every language here ptxas decides whether one instruction compares "
    "three of them."
)
COUNTER = Detector("ptx", r"\batom\.\S*add\S*")
THREE_AT_ONCE = Detector("sass", r"\bVIMNMX3\S*")
RESCALED_BETWEEN = Detector(
    "ptx",
    r"commit_group (?:mul )+commit_group",
    order=r"commit_group(?=\.sync)|wait_group(?=\.sync)|\bmul(?=\.\S*f32)",
)
"""O is multiplied after one product is issued, before the wait for it and before the next product is issued."""
RESCALED_IN_FLIGHT = Detector(
    "sass",
    r"WARPGROUP HGMMA (?:HGMMA |FMUL )*?(?:FMUL ){16,}(?:HGMMA |FMUL )*WARPGROUP",
    in_loop=True,
    order=r"\bHGMMA\b|\bFMUL\b|\bWARPGROUP(?=\.DEPBAR)",
)
"""O is multiplied behind the issue of a product and before the next wait, which may be one of the next iteration."""
IN_FLIGHT_AT_THE_STORE = Detector(
    "ptx", "commit_group st.global", order=r"commit_group(?=\.sync)|wait_group(?=\.sync)|\bst\.global"
)
"""A product is in flight while O of a tile is stored."""
CONVERTED_IN_FLIGHT = Detector(
    "ptx",
    r"mma_async (?:\S+\s+1 )?cvt",
    order=r"mma_async(?=\S* \{[^}\n]*\}, ?\{)|wait_group\.sync\S*\s+\d|\bcvt(?=\.rn\.\S*f16)",
)
"""P V, whose first operand is in registers, is in flight while numbers are converted to 16 bits."""
NEXT_P = Proof(
    "next_p",
    "In the PTX, the next P is converted while P V is in flight.",
    *forms("next_p", "bits", "values"),
    CONVERTED_IN_FLIGHT,
)
BEHIND_EXPONENTIALS = Detector(
    "sass",
    r"MUFU\.EX2 (?:HGMMA )*STG (?:HGMMA )*WARPGROUP",
    in_loop=True,
    order=r"\bHGMMA\b|MUFU\.EX2|\bSTG\b|\bWARPGROUP(?=\.DEPBAR)",
)
"""A store comes after the exponentials, and the wait comes after the store."""
ONE_BY_ONE = Detector("sass", "(?:HGMMA WARPGROUP ){4}", in_loop=True, order=r"\bHGMMA\b|\bWARPGROUP(?=\.DEPBAR)")
"""A wait follows each product: ptxas found no order in which several can safely be in flight."""
IN_FLIGHT_IN_A_ROLE = Detector(
    "ttgir",
    r"partition\d+.*pendings = 1 (?:math\.exp2 )+pendings = 0",
    order=r"partition\d+(?=\()|pendings = \d|math\.exp2",
)
"""In a role, exponentials come between a wait that leaves one product in flight and the next wait."""
UNDER_A_PRODUCT_IN_A_ROLE = Detector(
    "sass",
    r"USETMAXREG.* HGMMA (?:MUFU\.EX2 ){4}(?:HGMMA |MUFU\.EX2 )*WARPGROUP",
    order=r"USETMAXREG|HGMMA(?=\S* R\d+, gdesc)|MUFU\.EX2|WARPGROUP(?=\.DEPBAR)",
)
"""The same in machine code: exponentials come after a product of two tiles in shared memory and before its wait."""
LOADED_AHEAD = Detector(
    "ttgir",
    r"async_copy_global_to_local tt\.store",
    order=r"scf\.for|scf\.yield|async_copy_global_to_local|tt\.store",
)
"""Copies of a later tile start before O is stored."""
FLAGSHIP_IN_GLUON = Twin("flagship", "gluon", tile=TILE)
TWICE_IN_FLIGHT = Detector(
    "ptx",
    r"commit_group commit_group WAIT1 WAIT0".replace("WAIT", r"wait_group\.sync\.aligned\s+"),
    least=2,
    order=r"commit_group(?=\.sync)|wait_group\S+\s+\d",
)


WAITS_FOR_AN_IF = Proof(
    "rescale_in_flight if",
    "With a plain if around the rescale, the wait for the next Q K^T comes first.",
    *forms("rescale_in_flight", "if", "every step"),
    RESCALED_IN_FLIGHT,
    seen=False,
)


CLAIMS = (
    in_triton(
        "persistent",
        "direct",
        "A while loop takes tile after tile from an atomic counter. In a loop over tiles by tl.range(flatten=True) "
        "the compiler loads K and V of the next tile ahead, if all tiles have as many steps. So it does in one loop by "
        "hand over the steps of all tiles, which can take them from a counter.",
        Proof(
            "tiles from a counter",
            "The next tile comes from an atomic counter in global memory.",
            *twins("triton", "persistent", "overlapped_softmax", tile=TILE),
            COUNTER,
        ),
        Proof(
            "tiles_flat loads",
            "With tl.range(flatten=True), copies of later K and V tiles start before O is stored; with a "
            "plain tl.range they start after it.",
            *forms("tiles_flat", "flatten", "nested"),
            LOADED_AHEAD,
            obtained=False,
        ),
        Proof(
            "tiles_flat causal",
            "With tl.range(flatten=True) and another number of steps for each tile, they start after it.",
            *forms("tiles_flat", "flatten causal", "flatten"),
            LOADED_AHEAD,
            seen=False,
            obtained=False,
        ),
        Proof(
            "tiles_flat counter",
            "In one loop by hand, with its tiles from a counter, they start before O is stored.",
            *forms("tiles_flat", "counter", "nested"),
            LOADED_AHEAD,
            obtained=False,
        ),
        word=r"tl\.atomic_add",
    ),
    in_gluon(
        "persistent",
        "direct",
        "A while loop takes tile after tile from an atomic counter.",
        Proof(
            "tiles from a counter in Gluon",
            "The next tile comes from an atomic counter in global memory.",
            *forms("tiles_gluon", "counter", "plain"),
            COUNTER,
        ),
        word=r"gl\.atomic_add",
    ),
    in_triton(
        "integer_max",
        "hint",
        BITCAST,
        Proof(
            "maxima of integers",
            "One instruction takes the maximum of three integers (VIMNMX3). The kernel that compares floats has none.",
            *twins("triton", "integer_max", "wgmma", tile=TILE),
            THREE_AT_ONCE,
        ),
        word=r"bitcast=True",
    ),
    in_gluon(
        "integer_max",
        "hint",
        BITCAST,
        Proof(
            "integer_max in Gluon",
            "In an attention kernel, one instruction takes the maximum of three integers (VIMNMX3).",
            *twins("gluon", "integer_max", "persistent", tile=TILE),
            THREE_AT_ONCE,
        ),
        Proof(
            "maxima of integers in Gluon",
            "One instruction takes the maximum of three integers (VIMNMX3). The kernel that compares floats has none.",
            *forms("tiles_gluon", "integers", "floats"),
            THREE_AT_ONCE,
        ),
        word=r"bitcast=True",
    ),
    in_gluon(
        "tma_store",
        "direct",
        "A TMA store takes its descriptor and its shared-memory buffer. A wait says when that buffer is free.",
        Proof(
            "TMA store in Gluon",
            "The machine code has a TMA store (UTMASTG).",
            *forms("tiles_gluon", "tma_store", "plain"),
            Detector("sass", r"UTMASTG\S*"),
        ),
        word="store_async",
    ),
    in_triton(
        "early_rescale",
        "hint",
        "One order of statements, that of overlapped_softmax, multiplies O while the next Q K^T is in flight. With a "
        "plain if around the rescale the compiler waits first; with tl.map_elementwise it does not. In the order "
        "Q K^T, rescale, P V it waits first too.",
        Proof(
            "rescale_in_flight twin",
            "In the kernel of overlapped_softmax at 128 x 128, O is multiplied after the next Q K^T is issued and "
            "before the wait for it.",
            Twin("overlapped_softmax", "triton", TILE, head_dim=128),
            Probe("rescale_in_flight", "if"),
            RESCALED_IN_FLIGHT,
        ),
        *(
            Proof(f"rescale_in_flight {form}", shows, *forms("rescale_in_flight", form, "if"), RESCALED_IN_FLIGHT)
            for form, shows in (
                (
                    "every step",
                    "In that order, O is multiplied after the next Q K^T is issued and before the wait for it.",
                ),
                (
                    "elementwise",
                    "With the condition in tl.map_elementwise, O is still multiplied before the wait for the next "
                    "Q K^T.",
                ),
            )
        ),
        WAITS_FOR_AN_IF,
        *(
            Proof(
                f"rescale_order {form}",
                shows,
                Probe("rescale_order", form),
                Probe("products_gluon", "early"),
                RESCALED_BETWEEN,
                seen=False,
            )
            for form, shows in (
                (
                    "written",
                    "Between Q K^T and P V of one step, the rescale of O comes after the wait for Q K^T.",
                ),
                (
                    "rotated",
                    "If P V is a product of its own that is added to O, the rescale still comes after the wait for "
                    "Q K^T.",
                ),
                ("asm", "With inline PTX between the products, the rescale still comes after the wait for Q K^T."),
            )
        ),
        Proof(
            "rescale_order hook",
            "A hook on the compiler's stages can move that wait: O is then rescaled after Q K^T is issued and "
            "before P V is issued.",
            *forms("rescale_order", "hook", "written"),
            RESCALED_BETWEEN,
            obtained=False,
        ),
        word=r"tl\.dot",
    ),
    in_gluon(
        "early_rescale",
        "direct",
        "A product is issued where its call is, and waited for where its wait is.",
        Proof(
            "early_rescale in Gluon",
            "In the PTX, O is rescaled after Q K^T is issued and before P V is issued.",
            *twins("gluon", "early_rescale", "lazy_rescale_wgmma", tile=TILE),
            RESCALED_BETWEEN,
        ),
        Proof(
            "early rescale in Gluon",
            "In the PTX, O is rescaled after Q K^T is issued and before P V is issued.",
            *forms("products_gluon", "early", "late"),
            RESCALED_BETWEEN,
        ),
        word="is_async=True",
    ),
    in_triton(
        "fused_switch",
        "hint",
        "If one hand-written loop covers the iterations of all tiles, the next tile's first product is in "
        "flight while O is stored. With nested loops the compiler waits for it first, also with "
        "flatten=True.",
        Proof(
            "tiles_flat by hand",
            "O is stored before the wait for the product issued last.",
            *forms("tiles_flat", "by hand", "nested"),
            IN_FLIGHT_AT_THE_STORE,
        ),
        Proof(
            "tiles_flat flatten",
            "With tl.range(flatten=True), the compiler waits for every product before O is stored.",
            *forms("tiles_flat", "flatten", "by hand"),
            IN_FLIGHT_AT_THE_STORE,
            seen=False,
        ),
        word=r"tl\.dot",
    ),
    in_gluon(
        "fused_switch",
        "direct",
        "A product is issued where its call is, in any loop, and waited for where its wait is.",
        Proof(
            "fused_switch in Gluon",
            "Each of two warpgroups has a second place with two products in flight: the end of a tile.",
            *twins("gluon", "fused_switch", "persistent", tile=TILE),
            replace(TWICE_IN_FLIGHT, least=3),
        ),
        Proof(
            "two tiles in flight in Gluon",
            "The code has a second place with two products in flight: the end of a tile.",
            *forms("products_gluon", "fused", "late"),
            TWICE_IN_FLIGHT,
        ),
        word="is_async=True",
    ),
    in_triton(
        "held_overlap",
        "hint",
        "The source cannot place a wait, nor make one depend on values. But a store that is masked by the row sums, "
        "and never happens, keeps the exponentials before the wait for the next scores.",
        Proof(
            "store that hangs on sums",
            "In the machine code, the store comes after the exponentials and before the wait for the product.",
            *forms("masked_store", "sums", "free"),
            BEHIND_EXPONENTIALS,
        ),
        word=r"tl\.store\(never_ptr",
    ),
    in_triton(
        "pinned_maxima",
        "hint",
        "The source cannot hand a buffer back, so no arrival can depend on the row maxima. But a store that is masked "
        "by them, and never happens, keeps their comparison before the wait for the next scores.",
        Proof(
            "store that hangs on maxima",
            "The row maxima are compared for the store between the issue of the next scores and the wait for them.",
            *forms("masked_store", "maxima", "free"),
            Detector(
                "ptx",
                r"commit_group(?: setp\.gt\.f32)+ st\.global wait_group",
                order=r"commit_group(?=\.sync)|setp\.gt\.f32|st\.global|wait_group(?=\.sync)",
            ),
        ),
        word=r"tl\.store\(never_ptr",
    ),
    in_triton(
        "double_buffered_p",
        "hint",
        "If P V is one step behind and the loop carries the bits of P as integers, the compiler waits for P V only "
        "after it has converted the next P. In every other order of statements tried it waits first.",
        NEXT_P,
        Proof(
            "next_p not serialized",
            "In the machine code, no wait follows every wgmma.",
            Probe("next_p", "bits"),
            Probe("two_sets", "hook"),
            ONE_BY_ONE,
            seen=False,
        ),
        *(
            Proof(
                f"two_sets {form}",
                shows,
                *forms("two_sets", form, "hook"),
                CONVERTED_IN_FLIGHT,
                seen=False,
            )
            for form, shows in (
                (
                    "two steps",
                    "With two variables for P, used in turn, the compiler waits for P V before it converts the next P.",
                ),
                (
                    "scores in flight",
                    "With the next Q K^T in flight during the softmax, the compiler waits for P V before it "
                    "converts the next P.",
                ),
                ("asm", "With the conversion in inline PTX, the compiler waits for P V before it."),
            )
        ),
        word="bitcast=True",
    ),
    in_triton(
        "flagship",
        "hint",
        "The source writes tiles, integer maxima and TMA stores, and asks for roles. With roles the "
        "compiler waits for every product before the softmax. But if a consumer has two blocks of rows, "
        "ptxas overlaps the softmax of one with a product of the other. The programs here have no turns "
        "between consumers, no branch for a single warp, and no tile counter with roles.",
        *(
            Proof(
                f"roles_two_blocks {form}",
                shows,
                *forms("roles_two_blocks", form, "one block"),
                UNDER_A_PRODUCT_IN_A_ROLE,
            )
            for form, shows in (
                (
                    "two blocks",
                    "In a role, exponentials come between the second Q K^T and the wait for it.",
                ),
                (
                    "persistent",
                    "With roles around a loop over tiles, exponentials come between the second Q K^T and the wait "
                    "for it.",
                ),
            )
        ),
        *(
            Proof(
                f"all_at_once {form}",
                shows,
                Probe("all_at_once", form),
                FLAGSHIP_IN_GLUON,
                IN_FLIGHT_IN_A_ROLE,
                seen=False,
            )
            for form, shows in (
                ("written", "With roles, no product is in flight during the exponentials."),
                (
                    "persistent",
                    "With roles around a loop over tiles, no product is in flight during the exponentials.",
                ),
                ("asm", "Inline PTX gives half of the warps no iterations, but the IR has no role."),
            )
        ),
        Proof(
            "all_at_once scores in flight",
            "With roles, the order of statements that keeps scores in flight makes the compiler fail.",
            *forms("all_at_once", "scores in flight", "written"),
            Detector("words", r"PassManager::run failed|the process ended"),
        ),
        word="warp_specialize=",
    ),
    in_gluon(
        "pinned_maxima",
        "direct",
        "An arrival at an mbarrier takes a condition, which may depend on the row maxima: one scalar for "
        "the whole warpgroup.",
        Proof(
            "an arrival that hangs on maxima in Gluon",
            "A comparison of the row maxima decides whether to arrive.",
            *forms("values_gluon", "pinned", "free"),
            Detector("ptx", r"setp\.num\.f32"),
        ),
        word="pred=",
    ),
    in_gluon(
        "held_overlap",
        "direct",
        "A wait for an mbarrier takes the phase as a value, which may depend on the row sums.",
        Proof(
            "a wait that hangs on sums in Gluon",
            "A comparison of the row sums decides which phase to wait for.",
            *forms("values_gluon", "held", "free"),
            Detector("ptx", r"setp\.lt\.f32"),
        ),
        word=r"mbarrier\.wait\(empty",
    ),
)
