"""Who works when, before and after a technique: schematic drawings. Plain data; nothing in them is measured.

A lane is spans from left to right, "label*width" joined by " | "; "." is a span in which the lane waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

PRODUCTS = ("Q K", "P V", "products")
COPIES = ("load", "store", "reads")


@dataclass(frozen=True)
class Span:
    label: str  # "" where the lane waits
    width: int

    @property
    def kind(self) -> str:
        """What it is drawn as: product, copy, wait or other."""
        if not self.label:
            return "wait"
        return "product" if self.label.startswith(PRODUCTS) else "copy" if self.label.startswith(COPIES) else "other"


@dataclass(frozen=True)
class Timeline:
    """`lanes`: who -> what it does, all equally long. `text` says what to see."""

    title: str
    text: str
    lanes: dict[str, str]

    def spans(self) -> dict[str, list[Span]]:
        return {who: [_span(text) for text in lane.split(" | ")] for who, lane in self.lanes.items()}


@dataclass(frozen=True)
class Heading:
    """What the drawings of a technique show. `legend`: kind of a span -> what it is, of those that are drawn."""

    title: str
    text: str = "From left to right, a drawing and not a measurement"
    legend: tuple[tuple[str, str], ...] = (
        ("product", "tensor cores"),
        ("copy", "copies"),
        ("other", "other work"),
        ("wait", "waits"),
    )


def heading(name: str) -> Heading:
    """Of a technique's drawings."""
    found = HEADINGS.get(name, WHEN)
    kinds = {span.kind for one in TIMELINES[name] for lane in one.spans().values() for span in lane}
    return replace(found, legend=tuple(each for each in found.legend if each[0] in kinds))


def _span(text: str) -> Span:
    label, _, width = text.rpartition("*")
    return Span("" if label == "." else label, int(width))


TIMELINES: dict[str, tuple[Timeline, Timeline]] = {
    "cp_async_pipeline": (
        Timeline(
            "One buffer",
            "All warps wait until a tile of keys has arrived.",
            {
                "copies": "load K V 0*3 | .*3 | load K V 1*3 | .*3",
                "warps": ".*3 | products, softmax 0*3 | .*3 | products, softmax 1*3",
            },
        ),
        Timeline(
            "Copies in flight",
            "cp.async needs no registers and no waiting thread: the next tile arrives under this one's products.",
            {
                "copies": "load K V 0*3 | load K V 1*3 | load K V 2*3 | .*3",
                "warps": ".*3 | products, softmax 0*3 | products, softmax 1*3 | products, softmax 2*3",
            },
        ),
    ),
    "mbarrier_ring": (
        Timeline(
            "A barrier for all, each step",
            "Every warp waits for the slowest before a buffer may be loaded again.",
            {
                "warp 0": "step 0*2 | .*2 | step 1*3 | .*1 | step 2*2 | .*2",
                "warp 3": "step 0*4 | step 1*4 | step 2*4",
            },
        ),
        Timeline(
            "A ring of barriers",
            "A warp waits only for data. A buffer is loaded again when the last warp has handed it back.",
            {
                "warp 0": "step 0*2 | step 1*3 | step 2*2 | step 3*4 | .*1",
                "warp 3": "step 0*4 | step 1*4 | step 2*4",
            },
        ),
    ),
    "warp_specialized": (
        Timeline(
            "Every warp does all",
            "One thread of a math warp asks for the loads, between two products.",
            {
                "warp 0": "load*1 | products, softmax 0*4 | load*1 | products, softmax 1*4",
                "other warps": ".*1 | products, softmax 0*4 | .*1 | products, softmax 1*4",
            },
        ),
        Timeline(
            "A warp that only loads",
            "It runs ahead as far as there are buffers; the others never stop for it.",
            {
                "producer": "load 0*2 | load 1*2 | load 2*2 | .*4",
                "consumers": ".*2 | products, softmax 0*4 | products, softmax 1*4",
            },
        ),
    ),
    "exp_lock": (
        Timeline(
            "No turns",
            "Both warpgroups come to their exponentials together, and nobody uses the tensor cores.",
            {
                "warpgroup 0": "Q K*2 | exponentials*3 | P V*2 | Q K*2 | exponentials*3 | .*2",
                "warpgroup 1": "Q K*2 | exponentials*3 | P V*2 | Q K*2 | exponentials*3 | .*2",
                "tensor cores": "products*2 | .*3 | products*4 | .*3 | .*2",
            },
        ),
        Timeline(
            "One at a time in the exponentials",
            "A named barrier lets one warpgroup in; the other has the tensor cores meanwhile.",
            {
                "warpgroup 0": "Q K*2 | exponentials*3 | P V*2 | Q K*2 | exponentials*3 | .*2",
                "warpgroup 1": ".*3 | Q K*2 | exponentials*3 | P V*2 | Q K*2 | .*2",
                "tensor cores": "products*5 | products*4 | products*3 | .*2",
            },
        ),
    ),
    "producer_consumer": (
        Timeline(
            "All warps alike",
            "Every thread keeps registers for O, also the one that only loads.",
            {
                "warpgroup 0": "load*1 | Q K, softmax, P V*5 | load*1 | Q K, softmax, P V*5",
                "warpgroup 1": ".*1 | Q K, softmax, P V*5 | .*1 | Q K, softmax, P V*5",
            },
        ),
        Timeline(
            "Roles",
            "One warp of the producer warpgroup loads. setmaxnreg moves its warpgroup's registers to the others.",
            {
                "producer": "load 0*2 | load 1*2 | load 2*2 | .*6",
                "warpgroup 0": ".*2 | Q K, softmax, P V*5 | Q K, softmax, P V*5",
                "warpgroup 1": ".*2 | Q K, softmax, P V*5 | Q K, softmax, P V*5",
            },
        ),
    ),
    "overlapped_softmax": (
        Timeline(
            "Every product awaited",
            "While a warpgroup is in its softmax, none of its products is in flight.",
            {
                "warpgroup": "Q K 1*2 | softmax 1*3 | P V 1*2 | Q K 2*2 | softmax 2*3",
                "its products": "Q K 1*2 | .*3 | P V 1*2 | Q K 2*2 | .*3",
            },
        ),
        Timeline(
            "The next Q K with this P V",
            "The source puts the softmax between the two waits. What ptxas makes of it is on this page, as SASS.",
            {
                "warpgroup": ".*2 | softmax 1*3 | .*1 | softmax 2*3 | .*1 | softmax 3*2",
                "its products": "Q K 1*2 | P V 0*2 | .*1 | Q K 2*1 | P V 1*3 | Q K 3*1 | P V 2*2",
            },
        ),
    ),
    "pingpong": (
        Timeline(
            "No turns",
            "Warpgroups issue their products when they come to them, often both at once.",
            {
                "warpgroup 0": "Q K, P V*3 | softmax*3 | Q K, P V*3 | softmax*3",
                "warpgroup 1": "Q K, P V*3 | softmax*3 | Q K, P V*3 | softmax*3",
            },
        ),
        Timeline(
            "Turns",
            "A named barrier gives the turn away once products are issued: a softmax comes under the other group's.",
            {
                "warpgroup 0": "Q K, P V*3 | softmax*3 | Q K, P V*3 | softmax*3",
                "warpgroup 1": ".*3 | Q K, P V*3 | softmax*3 | Q K, P V*3",
            },
        ),
    ),
    "pinned_maxima": (
        Timeline(
            "Nothing pinned",
            "ptxas moves the wait for P V up: half of the maxima and all exponentials stand behind it.",
            {
                "P V in flight": "P V*3 | .*5",
                "softmax": ".*1 | maxima*2 | .*1 | maxima*1 | exponentials*3",
            },
        ),
        Timeline(
            "K's release hangs on the maxima",
            "The release stays where it is, so the maxima do; the exponentials are free to follow.",
            {
                "P V in flight": "P V*5 | .*3",
                "softmax": ".*1 | maxima*3 | exponentials*3 | .*1",
            },
        ),
    ),
    "persistent": (
        Timeline(
            "A block a tile",
            "Each block loads its Q and its first K before it can begin.",
            {
                "copies": "load Q K*3 | load K V*5 | .*2 | load Q K*3 | load K V*5",
                "products": ".*3 | products*5 | store O*2 | .*3 | products*5",
            },
        ),
        Timeline(
            "A block that stays",
            "The producer takes the next tile's number and loads its Q and K under this tile's last products.",
            {
                "copies": "load Q K*3 | load K V*3 | load Q K*3 | load K V*5 | .*4",
                "products": ".*3 | products*5 | store O*2 | products*5 | store O*2 | .*1",
            },
        ),
    ),
    "own_diagonal": (
        Timeline(
            "One end for the block",
            "The upper warpgroup works on a tile of keys that none of its rows sees.",
            {
                "rows 0-63": "keys 0*3 | keys 1*3 | all masked*3",
                "rows 64-127": "keys 0*3 | keys 1*3 | keys 2*3",
            },
        ),
        Timeline(
            "An end for each warpgroup",
            "It stops at its own diagonal and only hands the last buffers back.",
            {
                "rows 0-63": "keys 0*3 | keys 1*3 | .*3",
                "rows 64-127": "keys 0*3 | keys 1*3 | keys 2*3",
            },
        ),
    ),
    "fused_switch": (
        Timeline(
            "A tile ends, then one begins",
            "The last P V and the next first Q K each stand alone.",
            {
                "products": "Q K, P V*3 | P V*2 | .*2 | Q K*2 | .*2 | Q K, P V*3",
                "softmax": "last step*3 | .*2 | store O*2 | .*2 | first step*2 | .*3",
            },
        ),
        Timeline(
            "Joined",
            "The next tile's Q K is issued with this tile's P V, and its softmax comes under both.",
            {
                "products": "Q K, P V*3 | Q K, P V*3 | .*2 | Q K, P V*3 | .*3",
                "softmax": "last step*3 | first step*3 | store O*2 | next step*3 | .*3",
            },
        ),
    ),
    "tma_store": (
        Timeline(
            "Lanes store O",
            "Four bytes a lane and instruction: the warp is busy until the last is issued.",
            {
                "warp": "last P V*2 | store O*4 | first Q K*2 | softmax*2",
                "copies": ".*2 | store O*4 | .*4",
            },
        ),
        Timeline(
            "TMA stores O",
            "stmatrix stages the rows where Q was; the copy engine takes them while the warp goes on.",
            {
                "warp": "last P V*2 | stage*1 | first Q K*2 | softmax*2 | .*3",
                "copies": ".*3 | store O*4 | .*3",
            },
        ),
    ),
    "head_by_head": (
        Timeline(
            "Longest first",
            "Short sequences: the first wave reads keys of nearly as many heads as it has blocks, later ones few.",
            {
                "memory": "reads many heads*6 | .*3 | .*3",
                "blocks": ".*3 | wave 0*4 | wave 1*2 | wave 2*2 | .*1",
            },
        ),
        Timeline(
            "Head after head",
            "Tiles of a head are neighbours: each wave reads a few heads, and the next is read meanwhile.",
            {
                "memory": "reads*2 | reads*2 | reads*2 | reads*2 | .*4",
                "blocks": ".*1 | wave 0*2 | wave 1*2 | wave 2*2 | wave 3*2 | .*3",
            },
        ),
    ),
    "scores_in_flight": (
        Timeline(
            "Scores, then softmax",
            "The softmax of a step waits for its own Q K.",
            {
                "products": "Q K 1*2 | .*3 | P V 1*2 | Q K 2*2 | .*3",
                "softmax": ".*2 | softmax 1*3 | .*4 | softmax 2*3",
            },
        ),
        Timeline(
            "The next scores first",
            "Q K of the next step is issued before this step's softmax, and is in flight meanwhile.",
            {
                "products": "Q K 2*3 | P V 1*2 | Q K 3*3 | P V 2*2 | .*2",
                "softmax": "softmax 1*3 | .*2 | softmax 2*3 | .*4",
            },
        ),
    ),
    "mma_ldmatrix": (
        Timeline(
            "Fragments of unknown layout",
            "Whatever needs rows passes through shared memory: S, P, and O in every step.",
            {
                "warp": "Q K*2 | softmax*2 | rescale O*2 | P V*2",
                "shared memory": "reads*1 | store S*1 | reads*1 | store*1 | reads O*1 | store*1 | reads O*1 | store*1",
            },
        ),
        Timeline(
            "The layout is known",
            "A lane knows which rows of O it holds, so O stays in its registers. S and P still pass.",
            {
                "warp": "Q K*2 | softmax*2 | rescale*1 | P V*2 | .*1",
                "shared memory": "reads*1 | store S*1 | reads S*1 | store P*1 | reads P V*2 | .*2",
            },
        ),
    ),
    "register_softmax": (
        Timeline(
            "Scores through shared memory",
            "Half a warp computes a row that other lanes' products made.",
            {
                "warp": "Q K*2 | .*1 | softmax*2 | .*1 | P V*2",
                "shared memory": "reads K*2 | store S*1 | reads S*1 | store P*2 | reads P V*2",
            },
        ),
        Timeline(
            "Scores stay where they are",
            "Four lanes hold a row of S: two shuffles reduce it, and two C fragments are one A fragment of P V.",
            {
                "warp": "Q K*2 | softmax*2 | P V*2 | .*2",
                "shared memory": "reads K*2 | .*2 | reads V*2 | .*2",
            },
        ),
    ),
    "direct_rescale": (
        Timeline(
            "The tile's own max first",
            "Every P is multiplied once more, to bring it to the max of all tiles so far.",
            {
                "scores": "tile max*2 | exponentials*3 | P * factor*2 | P V*3",
                "row max": ".*2 | joins*3 | .*5",
            },
        ),
        Timeline(
            "The new max first",
            "The max of the tiles before joins before the exponentials: their results are P already.",
            {
                "scores": "tile max*2 | exponentials*3 | P V*3 | .*2",
                "row max": "joins*2 | .*8",
            },
        ),
    ),
    "split_warp_pairs": (
        Timeline(
            "A warp owns 16 rows",
            "It holds all their scores and all of their O, and asks nobody.",
            {
                "rows 0-15": "Q K, all keys*4 | max*1 | exp*2 | P V*4 | .*2",
                "rows 16-31": "Q K, all keys*4 | max*1 | exp*2 | P V*4 | .*2",
            },
        ),
        Timeline(
            "Two warps share 16 rows",
            "Each has half of the keys, and for O half of the columns; in every step they meet twice.",
            {
                "warp 0": "Q K, half*2 | max*1 | .*1 | exp*1 | store P*2 | .*1 | P V, half*2 | .*3",
                "warp 1": "Q K, half*2 | max*1 | .*1 | exp*1 | store P*2 | .*1 | P V, half*2 | .*3",
            },
        ),
    ),
    "ldmatrix_x4": (
        Timeline(
            "A load for each product",
            "ldmatrix.x2 brings the B fragment of one mma.",
            {
                "loads": "load x2*1 | .*1 | load x2*1 | .*1 | load x2*1 | .*1",
                "mma": ".*1 | product*1 | .*1 | product*1 | .*1 | product*1",
            },
        ),
        Timeline(
            "A load for two",
            "ldmatrix.x4 brings those of two neighbours: half as many load instructions.",
            {
                "loads": "load x4*1 | .*2 | load x4*1 | .*2",
                "mma": ".*1 | products*2 | .*1 | products*2",
            },
        ),
    ),
    "exp2_softmax": (
        Timeline(
            "Scale, subtract, multiply, exp2",
            "The hardware has a power of two only, so an exponential needs a factor log2(e) before it.",
            {
                "score 0": "s * scale*2 | - max*2 | * log2(e)*2 | ex2*2",
                "score 1": ".*1 | s * scale*2 | - max*2 | * log2(e)*2 | ex2*1",
            },
        ),
        Timeline(
            "One multiply-add, exp2",
            "The row max is kept in units of log2, and all factors are one constant.",
            {
                "score 0": "s * c - max*2 | ex2*2 | .*4",
                "score 1": ".*1 | s * c - max*2 | ex2*2 | .*3",
            },
        ),
    ),
    "batched_m_tiles": (
        Timeline(
            "16 rows a warp",
            "Every warp reads all of K and V from shared memory for its 16 rows.",
            {
                "loads": "load K 0*1 | load K 1*1 | load K 2*1 | load K 3*1",
                "mma": "product 0*1 | product 1*1 | product 2*1 | product 3*1",
            },
        ),
        Timeline(
            "32 rows a warp",
            "A fragment of K or V is used by two products: half the reads for a row of O.",
            {
                "loads": "load K 0*2 | load K 1*2",
                "mma": "product 0*1 | product 0*1 | product 1*1 | product 1*1",
            },
        ),
    ),
    "fragment_double_buffer": (
        Timeline(
            "Load, then multiply",
            "A warp waits for its fragment; other warps have the tensor cores meanwhile.",
            {
                "loads": "load 0*1 | .*2 | load 1*1 | .*2",
                "mma": ".*1 | products 0*2 | .*1 | products 1*2",
            },
        ),
        Timeline(
            "The next load first",
            "A second set of registers takes the next fragment. Where other warps filled the gap, it was none.",
            {
                "loads": "load 0*1 | load 1*1 | .*1 | load 2*1 | .*2",
                "mma": ".*1 | products 0*2 | products 1*2 | .*1",
            },
        ),
    ),
    "asymmetric_kv_buffers": (
        Timeline(
            "One buffer each",
            "The next K can be asked for when everybody is done with this one: under P V.",
            {
                "copies": "load V 0*3 | load K 1*3 | load V 1*3 | load K 2*3",
                "warps": "Q K 0, softmax*3 | P V 0*3 | Q K 1, softmax*3 | P V 1*3",
            },
        ),
        Timeline(
            "Two for K, one for V",
            "The next K sets out a whole step ahead. Q stays in registers: the second K lies where Q lay.",
            {
                "copies": "load V 0, K 1*6 | load V 1, K 2*6",
                "warps": "Q K 0, softmax*3 | P V 0*3 | Q K 1, softmax*3 | P V 1*3",
            },
        ),
    ),
    "l2_grid_order": (
        Timeline(
            "Neighbours of different heads",
            "Blocks that run together read the keys of as many heads: more than L2 holds.",
            {
                "block 0": "head 0, rows 0*4 | head 0, rows 1*4",
                "block 1": "head 1, rows 0*4 | head 1, rows 1*4",
                "DRAM": "reads heads 0, 1*4 | reads heads 0, 1*4",
            },
        ),
        Timeline(
            "Neighbours of one head",
            "Query tiles of a head run together: its keys come from DRAM once.",
            {
                "block 0": "head 0, rows 0*4 | head 1, rows 0*4",
                "block 1": "head 0, rows 1*4 | head 1, rows 1*4",
                "DRAM": "reads head 0*4 | reads head 1*4",
            },
        ),
    ),
    "staged_epilogue": (
        Timeline(
            "4 bytes a lane",
            "A row of a fragment is four lanes: 16 bytes, half of what memory moves at once.",
            {
                "row 0 of O": "store 16 B*2 | store 16 B*2 | store 16 B*2 | store 16 B*2",
                "row 1 of O": "store 16 B*2 | store 16 B*2 | store 16 B*2 | store 16 B*2",
            },
        ),
        Timeline(
            "16 bytes a lane",
            "Rows pass through shared memory and leave whole.",
            {
                "row 0 of O": "stage*2 | store 64 B or more*4 | .*2",
                "row 1 of O": "stage*2 | store 64 B or more*4 | .*2",
            },
        ),
    ),
    "longest_first": (
        Timeline(
            "In order",
            "With a causal mask later rows see more keys: the longest block begins last and ends alone.",
            {
                "multiprocessor 0": "rows 0*1 | rows 2*3 | .*2",
                "multiprocessor 1": "rows 1*2 | rows 3*4",
            },
        ),
        Timeline(
            "Longest first",
            "Short blocks fill the gaps at the end.",
            {
                "multiprocessor 0": "rows 3*4 | rows 0*1 | .*1",
                "multiprocessor 1": "rows 2*3 | rows 1*2 | .*1",
            },
        ),
    ),
    "conditional_rescale": (
        Timeline(
            "Always",
            "O is multiplied in every step, mostly by one.",
            {
                "a max grew": "softmax*4 | rescale O*2 | P V*3",
                "none grew": "softmax*4 | rescale O*2 | P V*3",
            },
        ),
        Timeline(
            "Where it changes something",
            "The warp votes; without a new max it goes on to P V.",
            {
                "a max grew": "softmax*4 | vote*1 | rescale O*2 | P V*2",
                "none grew": "softmax*4 | vote*1 | P V*2 | .*2",
            },
        ),
    ),
    "lazy_rescale": (
        Timeline(
            "At every new max",
            "Each growth of a row's max costs a multiply of all of its O.",
            {
                "max far above": "softmax*4 | rescale O*2 | P V*3",
                "max a bit above": "softmax*4 | rescale O*2 | P V*3",
            },
        ),
        Timeline(
            "Only where it must be",
            "P may be relative to an older max while it stays below four: the sum is relative to the same one.",
            {
                "max far above": "softmax*4 | vote*1 | rescale O*2 | P V*2",
                "max a bit above": "softmax*4 | vote*1 | P V*2 | .*2",
            },
        ),
    ),
    "early_rescale": (
        Timeline(
            "A vote in the softmax",
            "The branch on it stands between exponentials and P V, when this warpgroup has no products in flight.",
            {
                "warpgroup": "maxima*2 | exponentials*2 | vote, rescale*2 | issue*1 | maxima*2 | .*1",
                "its products": "Q K, P V*4 | .*3 | Q K, P V*3",
            },
        ),
        Timeline(
            "A vote under Q K",
            "What O is still to be multiplied by is kept until the next Q K is issued.",
            {
                "warpgroup": "maxima*2 | exponentials*2 | issue*1 | vote, rescale*2 | issue*1 | maxima*2",
                "its products": "Q K, P V*4 | .*1 | Q K*3 | P V*2",
            },
        ),
    ),
    "tma_loads": (
        Timeline(
            "Every thread copies",
            "An address and a cp.async for each 16 bytes, in all threads.",
            {
                "thread 0": "addresses, load*3 | Q K, softmax*4 | addresses, load*3 | P V*3",
                "other threads": "addresses, load*3 | Q K, softmax*4 | addresses, load*3 | P V*3",
            },
        ),
        Timeline(
            "One thread asks",
            "It names a tile; the copy engine computes the addresses, and counts the bytes on an mbarrier.",
            {
                "thread 0": "load*1 | Q K, softmax*4 | load*1 | P V*3 | .*4",
                "other threads": "Q K, softmax*5 | P V*4 | .*4",
            },
        ),
    ),
    "wgmma": (
        Timeline(
            "mma.sync",
            "Each warp reads K and V into its registers, fragment by fragment.",
            {
                "a warp": "load K*1 | product*1 | load K*1 | product*1 | load K*1 | product*1 | load K*1 | product*1",
                "shared memory": "reads K*1 | .*1 | reads K*1 | .*1 | reads K*1 | .*1 | reads K*1 | .*1",
            },
        ),
        Timeline(
            "wgmma",
            "Four warps issue one instruction; the tensor cores read K and V from shared memory themselves.",
            {
                "a warpgroup": "issue*1 | .*3 | softmax*4",
                "tensor cores": ".*1 | products*3 | .*4",
            },
        ),
    ),
    "three_warpgroups": (
        Timeline(
            "Two math warpgroups",
            "While both are in their softmax, the tensor cores have nothing.",
            {
                "warpgroup 0": "Q K, P V*2 | softmax*4 | Q K, P V*2 | softmax*4",
                "warpgroup 1": ".*2 | Q K, P V*2 | softmax*4 | Q K, P V*2 | softmax*2",
                "tensor cores": "products*4 | .*2 | products*4 | .*2",
            },
        ),
        Timeline(
            "Three",
            "A third warpgroup's products come where there were none.",
            {
                "warpgroup 0": "Q K, P V*2 | softmax*4 | Q K, P V*2 | softmax*4",
                "warpgroup 1": ".*2 | Q K, P V*2 | softmax*4 | Q K, P V*2 | softmax*2",
                "warpgroup 2": ".*4 | Q K, P V*2 | softmax*4 | Q K, P V*2",
                "tensor cores": "products*12",
            },
        ),
    ),
    "held_overlap": (
        Timeline(
            "As ptxas orders it",
            "The source has the exponentials before the wait for P V; in the binary they stand behind it.",
            {
                "P V in flight": "P V*3 | .*5",
                "softmax": ".*1 | maxima*2 | .*1 | exponentials*4",
            },
        ),
        Timeline(
            "Held",
            "A wait that depends on the row sums keeps them before it. The next products then wait for them too.",
            {
                "P V in flight": "P V*7 | .*1",
                "softmax": ".*1 | maxima*2 | exponentials*4 | .*1",
            },
        ),
    ),
    "double_buffered_p": (
        Timeline(
            "One set of P",
            "P V reads the registers that the next P goes to: the scores become P when P V was awaited.",
            {
                "P V in flight": "P V 0*7 | .*3 | P V 1*7 | .*3",
                "softmax": ".*1 | exponentials 1*6 | P 1*2 | .*2 | exponentials 2*6 | P 2*2 | .*1",
            },
        ),
        Timeline(
            "Two sets",
            "The next P has registers of its own, so the scores become P under P V too.",
            {
                "P V in flight": "P V 0*9 | .*1 | P V 1*9 | .*1",
                "softmax": ".*1 | exponentials 1*6 | P 1*2 | .*2 | exponentials 2*6 | P 2*2 | .*1",
            },
        ),
    ),
    "cluster_multicast": (
        Timeline(
            "Each block for itself",
            "Two blocks of one head read the same keys; L2 delivers every tile twice.",
            {
                "L2 to block 0": "load K*2 | load V*2 | load K*2 | load V*2",
                "L2 to block 1": "load K*2 | load V*2 | load K*2 | load V*2",
                "products of both": ".*2 | Q K, P V*6",
            },
        ),
        Timeline(
            "A pair",
            "Each block asks for half of a tile, and multicast brings it to both.",
            {
                "half by block 0": "load ½*1 | load ½*1 | load ½*1 | load ½*1 | .*4",
                "half by block 1": "load ½*1 | load ½*1 | load ½*1 | load ½*1 | .*4",
                "products of both": ".*1 | Q K, P V*6 | .*1",
            },
        ),
    ),
    "integer_max": (
        Timeline(
            "Two at a time",
            "A maximum of fp32 numbers has two inputs.",
            {
                "scores 0, 1, 2": "max of 0, 1*2 | max with 2*2 | .*1",
                "scores 3, 4": ".*2 | .*2 | max with 3*1",
            },
        ),
        Timeline(
            "Three at a time",
            "Unless the largest is negative, bits of floats order like integers; one instruction compares three.",
            {
                "scores 0, 1, 2": "max of 0, 1, 2*2 | .*3",
                "scores 3, 4": ".*2 | max with 3, 4*2 | .*1",
            },
        ),
    ),
    "scalar": (
        Timeline(
            "All scores at once",
            "S and P hold length times length numbers, so they are written to memory and read again.",
            {
                "memory": "reads Q K*2 | store S*2 | reads S*2 | store P*2 | reads P V*2 | store O*2",
                "multiprocessor": ".*1 | scores*2 | .*2 | softmax*3 | .*1 | weighted sum*3",
            },
        ),
        Timeline(
            "Tile by tile",
            "A running max and a running sum for each row let tiles of keys come one after the other: S stays inside.",
            {
                "memory": "reads K V 0*2 | .*3 | reads K V 1*2 | .*3 | store O*2",
                "multiprocessor": ".*2 | S, P, O of tile 0*3 | .*2 | S, P, O of tile 1*3 | .*2",
            },
        ),
    ),
    "vectorized_loads": (
        Timeline(
            "A number a load",
            "Each column of Q and K is read by itself: 2 bytes for a row.",
            {
                "loads": "load 2 B*1 | .*1 | load 2 B*1 | .*1 | load 2 B*1 | .*1 | load 2 B*1 | .*1 | load 2 B*1",
                "multiply-adds": ".*1 | column 0*1 | .*1 | column 1*1 | .*1 | column 2*1 | .*1 | column 3*1 | .*1",
            },
        ),
        Timeline(
            "Eight numbers a load",
            "16 bytes are eight columns: the multiply-adds are the same, and most loads are gone.",
            {
                "loads": "load 16 B*1 | .*8",
                "multiply-adds": ".*1 | column 0*1 | column 1*1 | column 2*1 | column 3*1 | columns 4 to 7*4",
            },
        ),
    ),
    "wmma": (
        Timeline(
            "Multiply-adds",
            "A thread knows which scores it holds, and computes them one multiply-add after the other.",
            {
                "warp": "scores*4 | softmax*2 | weighted sum*4",
                "shared memory": "reads K*4 | store P*2 | reads P V*4",
            },
        ),
        Timeline(
            "Tensor cores of unknown layout",
            "Products take little time. But no lane knows its rows, so S, P and O pass through shared memory.",
            {
                "warp": "Q K*2 | softmax*2 | rescale O*2 | P V*2 | .*2",
                "shared memory": "reads K*2 | store, read S*2 | store, read O*2 | reads P V*2 | .*2",
            },
        ),
    ),
    "large_tile": (
        Timeline(
            "64 keys a step",
            "Barriers, shuffles for the max and a multiply of all of O come in every step, however many keys it has.",
            {
                "for each key": "products, exp*3 | .*1 | products, exp*3 | .*1",
                "for each step": ".*3 | max, O*1 | .*3 | max, O*1",
            },
        ),
        Timeline(
            "128 keys a step",
            "As many products and exponentials, and half of what a step costs besides.",
            {
                "for each key": "products, exp*6 | .*2",
                "for each step": ".*6 | max, O*1 | .*1",
            },
        ),
    ),
    "general_shapes": (
        Timeline(
            "Whole tiles",
            "Every row of a tile exists; lengths are multiples of it.",
            {
                "keys 0-63": "load*2 | Q K*2 | .*2 | softmax*2 | P V*2",
                "keys 64-127": "load*2 | Q K*2 | .*2 | softmax*2 | P V*2",
            },
        ),
        Timeline(
            "A tile that the end cuts",
            "Of 100 keys the second tile has 36. Rows that are not there are zeros, and their scores are masked.",
            {
                "keys 0-63": "load*2 | Q K*2 | .*2 | softmax*2 | P V*2",
                "keys 64-99": "load*2 | Q K*2 | .*2 | softmax*2 | P V*2",
                "no keys": "zeros*2 | Q K*2 | masked*2 | softmax*2 | P V*2",
            },
        ),
    ),
    "lean_instructions": (
        Timeline(
            "Forwards, a question in each step",
            "Every step asks whether the diagonal or the end of the sequence cuts its tile.",
            {
                "tiles of keys": "products 0*4 | products 1*4 | products 2*4",
                "mask": ".*1 | cut?*2 | .*2 | cut?*2 | .*2 | cut? mask*3",
            },
        ),
        Timeline(
            "Backwards, cut tiles first",
            "Masks are behind when the main loop begins; at head_dim 64 it does not even ask.",
            {
                "tiles of keys": "products 2*4 | products 1*4 | products 0*4",
                "mask": ".*1 | mask*2 | .*9",
            },
        ),
    ),
    "wide_tile": (
        Timeline(
            "Two warpgroups, 128 keys",
            "Each has 240 registers a thread: O of 128 columns, S and P of 128 keys, and all else.",
            {
                "warpgroup 0": "O*16 | S*16 | P*8 | all else*20",
                "warpgroup 1": "O*16 | S*16 | P*8 | all else*20",
            },
        ),
        Timeline(
            "Three warpgroups, 80 keys",
            "Each has 160. O is as large as before, so a step has 80 keys, which is no power of two.",
            {
                "warpgroup 0": "O*16 | S*10 | P*5 | all else*9 | .*20",
                "warpgroup 1": "O*16 | S*10 | P*5 | all else*9 | .*20",
                "warpgroup 2": "O*16 | S*10 | P*5 | all else*9 | .*20",
            },
        ),
    ),
    "flagship": (
        Timeline(
            "Math warps see to the store",
            "They ask for it, and hand the buffer back when it was read: a branch in the next tile's loop.",
            {
                "math warps": "last P V*2 | stage O*2 | ask*1 | Q K, softmax*3 | hand back*2",
                "copies": ".*5 | store O*4 | .*1",
            },
        ),
        Timeline(
            "A warp of its own does",
            "In the math warps' loop nothing of the last tile is left.",
            {
                "math warps": "last P V*2 | stage O*2 | Q K, softmax*3 | Q K, softmax*3",
                "storing warp": ".*4 | ask*1 | .*3 | hand back*2",
                "copies": ".*5 | store O*4 | .*1",
            },
        ),
    ),
}
TIMELINES["lazy_scores_in_flight"] = TIMELINES["scores_in_flight"]
TIMELINES["softmax_lock"] = TIMELINES["exp_lock"]
TIMELINES["lean_mbarrier_ring"] = TIMELINES["mbarrier_ring"]
TIMELINES["setmaxnreg_consumers"] = TIMELINES["producer_consumer"]
TIMELINES["lazy_consumers"] = TIMELINES["lazy_rescale_wgmma"] = TIMELINES["lazy_rescale"]

WHEN = Heading("Who works when")
STEP = Heading("What a step does", legend=(*WHEN.legend[:3], ("wait", "nothing to do")))
SCORE = Heading(
    "What a score goes through", legend=(("other", "instructions"), ("product", "products"), ("wait", "waits"))
)
HEADINGS = {
    "scalar": Heading("What passes through memory"),
    "mma_ldmatrix": Heading("What passes through shared memory"),
    "register_softmax": Heading("What passes through shared memory"),
    "staged_epilogue": Heading("How a row of O leaves"),
    "integer_max": Heading("How the largest of five scores is found", legend=SCORE.legend),
    "wide_tile": Heading(
        "What the registers hold",
        "A multiprocessor's registers at head_dim 128, to scale; a drawing and not a measurement",
        (("other", "of a thread in this warpgroup"), ("wait", "left for the third")),
    ),
    **dict.fromkeys(("exp2_softmax", "direct_rescale"), SCORE),
    **dict.fromkeys(("conditional_rescale", "lazy_rescale", "lazy_consumers", "lazy_rescale_wgmma"), STEP),
    **dict.fromkeys(("large_tile", "general_shapes", "lean_instructions"), STEP),
}
"""Technique -> what its drawings show, where it is not who works when."""
