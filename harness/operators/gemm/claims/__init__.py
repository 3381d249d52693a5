"""Claims about loops over tiles of C, the products of a step, the order of operands in memory, and how C is stored.

What attention asks as well is claimed there: clusters and multicast, roles and the number of warps that they need, the
swizzle that a box's width chooses, TMA stores, flags between programs.
"""

from harness.expressibility.claims import Claim, Detector, Proof, by_pair, forms, in_triton, inherited
from harness.operators.gemm.claims.twin import Ordered, Twin

INITIALIZED_AGAIN = Detector("sass", r"SYNCS\.EXCH\S*", in_loop=True)
STORED_LATER = Detector(
    "ttgir",
    r"async_tma_copy_local_to_global scf\.yield",
    order=r"async_tma_store_wait|async_tma_copy_local_to_global|scf\.yield",
)
"""An iteration ends behind a TMA store without a wait for it."""
ROLES = Detector("facts", r"warps 12")
TILES_AROUND_STEPS = Detector(
    "ttgir", r"scf\.for scf\.for \S*warp_group_dot \S*tt\.store", order=r"scf\.for|ttng\.warp_group_dot(?!_)|tt\.store"
)
STORE_IN_A_LOOP = Detector("sass", r"STG\S*", in_loop=True)
ONE_IN_FLIGHT = Detector("ptx", r"wgmma\.wait_group\.sync\.aligned\s+1")
HALF_A_BUFFER = Detector("facts", r"shared 180\d\d\d")
CUT = Detector("ptx", r"cp\.async\.bulk\.tensor\.[34]d\.global\S*")
"""A TMA store with a coordinate more than a matrix has dimensions."""
TRANSPOSED = Detector("sass", r"HGMMA\S* .*\.tnspA\.tnspB")
COPIED = Detector("ttgir", r"ttg\.local_alloc %")
STORES = Detector("sass", r"UTMASTG\S*", least=4)


def _orders(backend: str) -> tuple[Ordered, Ordered]:
    return Ordered("either_major", backend, contiguous="mn"), Ordered("either_major", backend, contiguous="kk")


_OWN = (
    in_triton(
        "flattened_tiles",
        "hint",
        "flatten=True asks for one loop over the steps of all tiles. The compiler then initializes the ring of A and B "
        "once, and the loads of the next tile pass the end of a tile; a TMA store of C is waited for before the next. "
        "It does not combine with roles: the compiler drops these without a word where the loop is flattened. With "
        "roles and two loops it waits for each store at once.",
        Proof(
            "flattened ring",
            "No barrier of the ring is initialized in a loop; two nested loops initialize all for every tile.",
            *forms("flattened", "flat", "nested"),
            INITIALIZED_AGAIN,
            seen=False,
            obtained=True,
        ),
        Proof(
            "flattened store",
            "An iteration ends without a wait for its store; with roles the wait stands right behind the store.",
            *forms("flattened", "flat", "roles"),
            STORED_LATER,
        ),
        Proof(
            "flattened roles",
            "warp_specialize=True adds warps to two nested loops, and none to a flattened one.",
            *forms("flattened", "flat roles", "roles"),
            ROLES,
            seen=False,
        ),
        word="flatten=",
    ),
    by_pair(
        "flattened_tiles",
        "gluon",
        "Each role has a loop over tiles around the one over steps, and counts steps over all tiles.",
        Twin("persistent", "gluon"),
        Twin("producer_consumer", "gluon"),
        TILES_AROUND_STEPS,
        r"step \+= 1",
    ),
    in_triton(
        "products_in_flight",
        "automatic",
        "The products of a step are issued before those of the step before are waited for. With roles, which the "
        "compiler makes, all are waited for in every step.",
        Proof(
            "products_in_flight",
            "The loop waits until one group of products is in flight.",
            Twin("tma_swizzle", "triton"),
            Twin("producer_consumer", "triton"),
            ONE_IN_FLIGHT,
        ),
    ),
    by_pair(
        "products_in_flight",
        "gluon",
        "The wait says how many products may be in flight.",
        Twin("pingpong", "gluon"),
        Twin("persistent", "gluon"),
        ONE_IN_FLIGHT,
        r"warpgroup_mma_wait\(1",
    ),
    in_triton(
        "store_in_parts",
        "direct",
        "The source splits the sums into halves and stores one after the other. The halves share one buffer.",
        Proof(
            "flattened halves",
            "Shared memory is half a tile of C smaller than with one store.",
            *forms("flattened", "flat halves", "flat"),
            HALF_A_BUFFER,
        ),
        word=r"tl\.split",
    ),
    by_pair(
        "store_in_parts",
        "gluon",
        "The source splits the sums into boxes and says in which buffer each lies.",
        Twin("tma_store_epilogue", "gluon"),
        Twin("persistent", "gluon"),
        STORES,
        "store_parts",
    ),
    in_triton(
        "store_cut_at_a_row",
        "direct",
        "triton.tools.ragged_tma makes a descriptor of C whose coordinates say where a group ends.",
        Proof(
            "store_cut_at_a_row",
            "The store has four coordinates; a matrix has two.",
            Twin("grouped", "triton"),
            Twin("tma_store_epilogue", "triton"),
            CUT,
        ),
        word="ragged",
    ),
    by_pair(
        "store_cut_at_a_row",
        "gluon",
        "The kernel stores through the same descriptor, with the layout that Gluon adds to it.",
        Twin("grouped", "gluon"),
        Twin("tma_store_epilogue", "gluon"),
        CUT,
        "ragged",
    ),
    in_triton(
        "either_major",
        "hint",
        "The source multiplies `.T` of a loaded block. The compiler decides whether wgmma reads the block as it lies: "
        "it does where elements have 16 bits, and makes a transposed copy where they have 32.",
        Proof(
            "transposed view",
            "wgmma transposes both operands with m and n contiguous, none with k contiguous.",
            *_orders("triton"),
            TRANSPOSED,
        ),
        Proof(
            "transposed copy",
            "A block of 32-bit elements is stored in shared memory again, one of 16-bit elements is not.",
            *forms("transposed", "32 bits", "16 bits"),
            COPIED,
            obtained=False,
        ),
        word=r"\.T\b",
    ),
    by_pair(
        "either_major",
        "gluon",
        "`permute` makes another view of a buffer in shared memory. wgmma takes either.",
        *_orders("gluon"),
        TRANSPOSED,
        "permute",
    ),
)

CLAIMS = (
    *_OWN,
    *inherited(_OWN, own=("either_major",)),
    by_pair(
        "either_major",
        "tlx",
        "`local_trans` makes another view of a buffer in shared memory. `async_dot` takes either.",
        *forms("transposed_tlx", "m and n contiguous", "k contiguous", dialect="tlx"),
        TRANSPOSED,
        "local_trans",
    ),
    by_pair(
        "either_major",
        "cuda",
        "wgmma has a bit for each operand in shared memory, and the descriptor says how far the next rows are.",
        *_orders("cuda"),
        TRANSPOSED,
    ),
    by_pair(
        "flattened_tiles",
        "cuda",
        "Each role has a loop over tiles around the one over steps.",
        Twin("persistent", "cuda"),
        Twin("two_consumers", "cuda"),
        STORE_IN_A_LOOP,
    ),
    by_pair(
        "products_in_flight",
        "cuda",
        "The wait says how many groups of products may be in flight.",
        Twin("pingpong", "cuda"),
        Twin("persistent", "cuda"),
        ONE_IN_FLIGHT,
    ),
    by_pair(
        "store_in_parts",
        "cuda",
        "A warp stages 16 rows of 128 bytes at a time, and TMA stores them.",
        Twin("tma_store_epilogue", "cuda"),
        Twin("persistent", "cuda"),
        STORES,
    ),
    by_pair(
        "store_cut_at_a_row",
        "cuda",
        "The map of C has a dimension of as many rows as a box, and one of places where a group can end.",
        Twin("grouped", "cuda"),
        Twin("tma_store_epilogue", "cuda"),
        CUT,
    ),
)
"""Of the matrix."""
OF_RIVALS: tuple[Claim, ...] = ()
ASKED: dict[str, str] = {}

EXTRA = {
    "either_major": "operands with m or n contiguous in shared memory, which wgmma reads as they lie",
    "flattened_tiles": "one pipeline over the steps of all tiles of C",
    "products_in_flight": "products of a step issued before those of the step before are waited for",
    "store_cut_at_a_row": "a TMA store that ends at a row that the device alone knows",
    "store_in_parts": "C stored by TMA in parts, through a buffer smaller than a tile",
}
"""Technique without a rung -> its idea."""
