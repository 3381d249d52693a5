"""Who works when, before and after a technique: schematic timelines. Plain data; nothing in them is measured.

A lane is spans from left to right, "label*width" joined by " | "; "." is a span in which the lane waits.
"""

from __future__ import annotations

from dataclasses import dataclass

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
}
TIMELINES["lazy_scores_in_flight"] = TIMELINES["scores_in_flight"]
TIMELINES["softmax_lock"] = TIMELINES["exp_lock"]
