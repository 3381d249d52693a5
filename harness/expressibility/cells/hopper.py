"""What the rungs of the ladder hopper ask of core Triton and Gluon beside roles, barriers, products and tiles."""

from dataclasses import replace

from harness.expressibility.claims import Claim, Detector, Probe, Proof, Twin

TILE = "128x128-s2-w8"
"""Of the kernels of core Triton: the reference tiles of these rungs are no powers of two."""
BITCAST = "A bitcast makes integers of scores; that one instruction compares three of them is the assembler's choice."
COUNTER = Detector("ptx", r"\batom\.\S*add\S*")
THREE_AT_ONCE = Detector("sass", r"\bVIMNMX3\S*")
RESCALED_BETWEEN = Detector(
    "ptx",
    r"commit_group (?:mul )+commit_group",
    order=r"commit_group(?=\.sync)|wait_group(?=\.sync)|\bmul(?=\.\S*f32)",
)
"""O is multiplied after a product was issued, before it is awaited and before the next one is issued."""
IN_FLIGHT_AT_THE_STORE = Detector(
    "ptx", "commit_group st.global", order=r"commit_group(?=\.sync)|wait_group(?=\.sync)|\bst\.global"
)
"""A product was issued and is not awaited where O of a tile is stored."""
CONVERTED_IN_FLIGHT = Detector(
    "ptx",
    r"mma_async (?:\S+\s+1 )?cvt",
    order=r"mma_async(?=\S* \{[^}\n]*\}, ?\{)|wait_group\.sync\S*\s+\d|\bcvt(?=\.rn\.\S*f16)",
)
"""P V, whose first operand is in registers, was issued and is not awaited where numbers become 16 bits wide."""
BEHIND_EXPONENTIALS = Detector(
    "sass",
    r"MUFU\.EX2 (?:HGMMA )*BAR BAR (?:HGMMA )+WARPGROUP",
    in_loop=True,
    order=r"\bHGMMA\b|MUFU\.EX2|\bBAR(?=\.SYNC\S* 0x9)|\bWARPGROUP(?=\.DEPBAR)",
)
"""Barrier 9 comes after the exponentials, the next P V and the wait come after it."""
ONE_BY_ONE = Detector("sass", "(?:HGMMA WARPGROUP ){4}", in_loop=True, order=r"\bHGMMA\b|\bWARPGROUP(?=\.DEPBAR)")
"""A wait follows each product: the assembler found no order in which several are safe in flight."""
IN_FLIGHT_IN_A_ROLE = Detector(
    "ttgir",
    r"partition\d+.*pendings = 1 (?:math\.exp2 )+pendings = 0",
    order=r"partition\d+(?=\()|pendings = \d|math\.exp2",
)
"""Warps with code of their own, and in it exponentials between a wait that leaves a product in flight and the next."""
UNDER_A_PRODUCT_IN_A_ROLE = Detector(
    "sass",
    r"USETMAXREG.* HGMMA (?:MUFU\.EX2 ){4}(?:HGMMA |MUFU\.EX2 )*WARPGROUP",
    order=r"USETMAXREG|HGMMA(?=\S* R\d+, gdesc)|MUFU\.EX2|WARPGROUP(?=\.DEPBAR)",
)
"""The same in machine code: exponentials behind a product of two tiles in shared memory, ahead of its wait."""
FLAGSHIP_IN_GLUON = Twin("flagship", "gluon", tile=TILE)
TWICE_IN_FLIGHT = Detector(
    "ptx",
    r"commit_group commit_group WAIT1 WAIT0".replace("WAIT", r"wait_group\.sync\.aligned\s+"),
    least=2,
    order=r"commit_group(?=\.sync)|wait_group\S+\s+\d",
)


def _products(form: str) -> Probe:
    return Probe("products_gluon", form)


def _values(form: str) -> Probe:
    return Probe("values", form)


def _sets(form: str) -> Probe:
    return Probe("two_sets", form)


def _tiles(form: str) -> Probe:
    return Probe("tiles_gluon", form)


CLAIMS = (
    Claim(
        "persistent",
        "triton",
        "direct",
        "A `while` over tiles, the next from an atomic counter; what it loads of the next tile waits for the end of "
        "this one. In a loop by tl.range(flatten=True), without a counter, K and V of the next tile are loaded ahead.",
        (
            Proof(
                "tiles from a counter",
                "the next tile is taken from a counter in memory",
                Twin("persistent", "triton", tile=TILE),
                Twin("overlapped_softmax", "triton", tile=TILE),
                COUNTER,
            ),
            Proof(
                "tiles_flat loads",
                "with tl.range(flatten=True) K and V of steps to come are asked for before O of a tile is stored",
                Probe("tiles_flat", "flatten"),
                Probe("tiles_flat", "nested"),
                Detector(
                    "ttgir",
                    r"async_copy_global_to_local tt\.store",
                    order=r"scf\.for|scf\.yield|async_copy_global_to_local|tt\.store",
                ),
                obtained=False,
            ),
        ),
        word=r"tl\.atomic_add",
    ),
    Claim(
        "persistent",
        "gluon",
        "direct",
        "A `while` over tiles, the next from an atomic counter.",
        (
            Proof(
                "tiles from a counter in Gluon",
                "the next tile is taken from a counter in memory",
                _tiles("counter"),
                _tiles("plain"),
                COUNTER,
            ),
        ),
        word=r"gl\.atomic_add",
    ),
    Claim(
        "integer_max",
        "triton",
        "hint",
        BITCAST,
        (
            Proof(
                "maxima of integers",
                "maxima of three integers; floats have no such instruction on sm_90",
                Twin("integer_max", "triton", tile=TILE),
                Twin("persistent", "triton", tile=TILE),
                THREE_AT_ONCE,
            ),
        ),
        word=r"bitcast=True",
    ),
    Claim(
        "integer_max",
        "gluon",
        "hint",
        BITCAST,
        (
            Proof(
                "integer_max in Gluon",
                "maxima of three integers in an attention loop",
                Twin("integer_max", "gluon", tile=TILE),
                Twin("persistent", "gluon", tile=TILE),
                THREE_AT_ONCE,
            ),
            Proof(
                "maxima of integers in Gluon",
                "maxima of three integers; floats have no such instruction on sm_90",
                _tiles("integers"),
                _tiles("floats"),
                THREE_AT_ONCE,
            ),
        ),
        word=r"bitcast=True",
    ),
    Claim(
        "tma_store",
        "gluon",
        "direct",
        "A TMA store takes its descriptor and its place in shared memory; a wait says when that place is free.",
        (
            Proof(
                "TMA store in Gluon",
                "a TMA store",
                _tiles("tma_store"),
                _tiles("plain"),
                Detector("sass", r"UTMASTG\S*"),
            ),
        ),
        word="store_async",
    ),
    Claim(
        "early_rescale",
        "triton",
        "hatch",
        "No word for issuing a product or awaiting it: what stands between two products stands where the compiler has "
        "awaited the first. A hook on its stages moves that wait behind the second.",
        (
            Proof(
                "rescale_order hook",
                "with the wait moved, the multiplications stand between issuing Q K^T and P V",
                Probe("rescale_order", "hook"),
                Probe("rescale_order", "written"),
                RESCALED_BETWEEN,
            ),
            *(
                Proof(
                    f"rescale_order {form}",
                    shows,
                    Probe("rescale_order", form),
                    _products("early"),
                    RESCALED_BETWEEN,
                    seen=False,
                )
                for form, shows in (
                    ("written", "written between the two products, it comes after the wait for the first"),
                    ("rotated", "so it does where what is added to O is a product of its own"),
                    ("asm", "so it does where inline PTX stands between the products"),
                )
            ),
        ),
        word="add_stages_inspection_hook",
    ),
    Claim(
        "early_rescale",
        "gluon",
        "direct",
        "A product is issued where its call stands and awaited where its wait does.",
        (
            Proof(
                "early_rescale in Gluon",
                "in PTX the multiplications stand between issuing Q K^T and P V",
                Twin("early_rescale", "gluon", tile=TILE),
                Twin("lazy_rescale_wgmma", "gluon", tile=TILE),
                RESCALED_BETWEEN,
            ),
            Proof(
                "early rescale in Gluon",
                "in PTX the multiplications stand between issuing Q K^T and P V",
                _products("early"),
                _products("late"),
                RESCALED_BETWEEN,
            ),
        ),
        word="is_async=True",
    ),
    Claim(
        "fused_switch",
        "triton",
        "hint",
        "In one loop over the steps of all tiles, written by hand, the next tile's first product is in flight where O "
        "is stored. With a loop in a loop it is awaited, and flatten=True does not change that.",
        (
            Proof(
                "tiles_flat by hand",
                "O is stored before the product issued last is awaited",
                Probe("tiles_flat", "by hand"),
                Probe("tiles_flat", "nested"),
                IN_FLIGHT_AT_THE_STORE,
            ),
            Proof(
                "tiles_flat flatten",
                "with tl.range(flatten=True) every product is awaited before O is stored",
                Probe("tiles_flat", "flatten"),
                Probe("tiles_flat", "by hand"),
                IN_FLIGHT_AT_THE_STORE,
                seen=False,
            ),
        ),
        word=r"tl\.dot",
    ),
    Claim(
        "fused_switch",
        "gluon",
        "direct",
        "A product is issued where its call stands, in whichever loop, and awaited where its wait does.",
        (
            Proof(
                "fused_switch in Gluon",
                "in each of two warpgroups a second place with two products in flight, where one tile ends",
                Twin("fused_switch", "gluon", tile=TILE),
                Twin("persistent", "gluon", tile=TILE),
                replace(TWICE_IN_FLIGHT, least=3),
            ),
            Proof(
                "two tiles in flight in Gluon",
                "a second place with two products in flight: where one tile ends and the next begins",
                _products("fused"),
                _products("late"),
                TWICE_IN_FLIGHT,
            ),
        ),
        word="is_async=True",
    ),
    Claim(
        "held_overlap",
        "triton",
        "hatch",
        "No word for a wait, still less for one that hangs on values. Inline PTX has a barrier under a condition on "
        "the sums, never reached, that keeps the exponentials before the wait for the next scores.",
        (
            Proof(
                "barrier that hangs on sums",
                "in the machine code it stands behind the exponentials and before the wait for the products",
                _values("held"),
                _values("free"),
                BEHIND_EXPONENTIALS,
            ),
        ),
        word="inline_asm_elementwise",
    ),
    Claim(
        "pinned_maxima",
        "triton",
        "hatch",
        "No word for handing a buffer back. The maxima can be pinned without it: by a barrier of inline PTX under a "
        "condition on them, never reached.",
        (
            Proof(
                "barrier that hangs on maxima",
                "between issuing the next scores and awaiting them stands a barrier that hangs on the maxima",
                _values("pinned"),
                _values("free"),
                Detector(
                    "ptx",
                    r"commit_group(?: setp\.nan\.f32)+ wait_group",
                    order=r"commit_group(?=\.sync)|setp\.nan\.f32|wait_group(?=\.sync)",
                ),
            ),
        ),
        word="inline_asm_elementwise",
    ),
    Claim(
        "double_buffered_p",
        "triton",
        "hatch",
        "The compiler awaits P V where it is issued, in every order of statements. A hook on its stages moves the wait "
        "behind the next P; the assembler then awaits every product by itself.",
        (
            Proof(
                "two_sets hook",
                "in the PTX the next P is converted while P V is in flight",
                _sets("hook"),
                _sets("scores in flight"),
                CONVERTED_IN_FLIGHT,
            ),
            Proof(
                "two_sets hook serialized",
                "in the machine code a wait follows each product",
                _sets("hook"),
                _sets("scores in flight"),
                ONE_BY_ONE,
                obtained=False,
            ),
            *(
                Proof(
                    f"two_sets {form}",
                    shows,
                    _sets(form),
                    _sets("hook"),
                    CONVERTED_IN_FLIGHT,
                    seen=False,
                )
                for form, shows in (
                    ("two steps", "with a name for each of two sets, P V is awaited before the next P is converted"),
                    ("scores in flight", "so it is where the next Q K^T is in flight over the softmax"),
                    ("asm", "so it is where inline PTX converts"),
                )
            ),
        ),
        word="add_stages_inspection_hook",
    ),
    Claim(
        "flagship",
        "triton",
        "hint",
        "Tiles, maxima of integers and stores by TMA have words, roles are asked for. With roles the compiler awaits "
        "every product where it is issued; where a consumer has two blocks of rows, the assembler lays the softmax of "
        "one under a product of the other. What is not there: turns, a branch of one warp, a tile from a counter "
        "beside roles.",
        (
            *(
                Proof(
                    f"roles_two_blocks {form}",
                    shows,
                    Probe("roles_two_blocks", form),
                    Probe("roles_two_blocks", "one block"),
                    UNDER_A_PRODUCT_IN_A_ROLE,
                )
                for form, shows in (
                    ("two blocks", "in a role exponentials stand between the second Q K^T and its wait"),
                    ("persistent", "so it is with roles around a loop over tiles"),
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
                    ("written", "with roles every product is awaited before the exponentials"),
                    ("persistent", "so it is with roles around a loop over tiles"),
                    ("asm", "half of the warps without steps by inline PTX: no role in the IR"),
                )
            ),
            Proof(
                "all_at_once scores in flight",
                "the order that keeps scores in flight ends the compiler where roles are asked for",
                Probe("all_at_once", "scores in flight"),
                Probe("all_at_once", "written"),
                Detector("words", r"PassManager::run failed|the process ended"),
            ),
        ),
        word="warp_specialize=",
    ),
    Claim(
        "pinned_maxima",
        "gluon",
        "direct",
        "An arrival on an mbarrier takes a condition, which may hang on the maxima: on one scalar of a whole group.",
        (
            Proof(
                "an arrival that hangs on maxima in Gluon",
                "a comparison of the maxima decides on the arrival",
                Probe("values_gluon", "pinned"),
                Probe("values_gluon", "free"),
                Detector("ptx", r"setp\.num\.f32"),
            ),
        ),
        word="pred=",
    ),
    Claim(
        "held_overlap",
        "gluon",
        "direct",
        "A wait for an mbarrier takes the phase as a value, which may hang on a comparison of sums.",
        (
            Proof(
                "a wait that hangs on sums in Gluon",
                "a comparison of the sums decides on the phase that is awaited",
                Probe("values_gluon", "held"),
                Probe("values_gluon", "free"),
                Detector("ptx", r"setp\.lt\.f32"),
            ),
        ),
        word=r"mbarrier\.wait\(empty",
    ),
)
