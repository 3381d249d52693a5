"""What the rungs of the ladder hopper ask of core Triton and Gluon beside roles, barriers, products and tiles."""

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
TWICE_IN_FLIGHT = Detector(
    "ptx",
    r"commit_group commit_group WAIT1 WAIT0".replace("WAIT", r"wait_group\.sync\.aligned\s+"),
    least=2,
    order=r"commit_group(?=\.sync)|wait_group\S+\s+\d",
)


def _products(form: str) -> Probe:
    return Probe("products_gluon", form)


def _tiles(form: str) -> Probe:
    return Probe("tiles_gluon", form)


CLAIMS = (
    Claim(
        "persistent",
        "triton",
        "direct",
        "A `while` over tiles, the next from an atomic counter. How many blocks a multiprocessor holds it does not "
        "say, nor that the next tile is loaded under the end of this one.",
        (
            Proof(
                "tiles from a counter",
                "the next tile is taken from a counter in memory",
                Twin("persistent", "triton", tile=TILE),
                Twin("overlapped_softmax", "triton", tile=TILE),
                COUNTER,
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
        "inexpressible",
        "No word for issuing a product or awaiting it: what stands between two products stands where the compiler has "
        "awaited the first.",
        tuple(
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
    Claim(
        "early_rescale",
        "gluon",
        "direct",
        "A product is issued where its call stands and awaited where its wait does.",
        (
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
