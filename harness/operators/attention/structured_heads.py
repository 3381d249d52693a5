"""Where a CUDA twin attends, and where it errs: four heads of a known structure, run on a CPU.

Queries and keys are made so that the attention of each head has a shape that one can see. With V = a block of the
identity, O is the kernel's own P, normalized and rounded as the kernel does it; nothing is recomputed from its inputs.
`update` computes the arrays and writes them to build/; a page draws what `saved` returns.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.catalog.cases import Case, source_sha256
from harness.catalog.entries import Tile
from harness.catalog.sources import CACHE
from harness.operators.attention.problem import Problem

if TYPE_CHECKING:
    import torch

SEQ, DIM = 256, 64
BIN = 4
"""Positions that share one entry of the arrays."""
PERIOD = BLOCK = 32
ANCHORS = 8
HEADS = ("local", "strided", "global anchor", "block")
PROBLEM = Problem.square(SEQ // DIM + 1, len(HEADS), SEQ, DIM, dtype="fp16", causal=True)
CASE = Case("inspect", "direct_rescale", "cuda", PROBLEM, Tile(64, 64))
"""Batch i < 4 has columns 64 i to 64 i + 63 of the identity as V, the last one random values."""


def structured() -> tuple[torch.Tensor, torch.Tensor]:
    """Q and K in fp16, (heads, SEQ, DIM), in the order of HEADS.

    local and strided: waves whose phase is the position, so that q.k depends on the distance alone: near, or near a
    multiple of PERIOD. global anchor: all queries point where the first ANCHORS keys do. block: a direction for every
    BLOCK positions. Some noise on top.
    """
    import torch

    chance = torch.Generator().manual_seed(0)
    position = torch.arange(SEQ, dtype=torch.float64)
    short = torch.logspace(-1.5, 0, DIM // 2, dtype=torch.float64)  # no distance at which all are in phase again
    harmonics = 2 * math.pi / PERIOD * torch.arange(1, DIM // 2 + 1, dtype=torch.float64).remainder(PERIOD // 2)
    local, strided = (
        torch.cat([f(position[:, None] * waves) for f in (torch.cos, torch.sin)], dim=1) for waves in (short, harmonics)
    )
    directions = torch.randn(SEQ // BLOCK, DIM, generator=chance, dtype=torch.float64)
    directions /= directions.norm(dim=1, keepdim=True)
    block = directions[torch.arange(SEQ) // BLOCK]
    anchor_q = directions[:1].expand(SEQ, DIM)
    anchor_k = directions[:1] * (torch.arange(SEQ) < ANCHORS)[:, None]
    q = torch.stack([1.2 * local, 1.0 * strided, 6.0 * anchor_q, 6.0 * block])
    k = torch.stack([1.2 * local, 1.0 * strided, 6.0 * anchor_k, 6.0 * block])
    noise = 0.25 * torch.randn(2, *q.shape, generator=chance, dtype=torch.float64)
    return (q + noise[0]).half(), (k + noise[1]).half()


def saved() -> dict[str, Any] | None:
    """The arrays that `update` last wrote, None if they are not of this checkout's kernel."""
    try:
        found: dict[str, Any] = json.loads(_path().read_text())
    except (OSError, ValueError):
        return None
    return found if found.get("source_sha256") == source_sha256(CASE) else None


def update() -> None:
    """Computes the arrays and writes them, unless `saved` has them. Does nothing on a machine that cannot run the
    kernel; the gate's rows say why it cannot."""
    from harness import build

    if saved() is None:
        try:
            arrays = compute()
        except (build.Unsupported, build.CompileError, build.LaunchError):
            return
        _path().parent.mkdir(parents=True, exist_ok=True)
        _path().write_text(json.dumps({"source_sha256": source_sha256(CASE), "technique": CASE.technique, **arrays}))


def compute() -> dict[str, Any]:
    """{"seq", "bin", "heads": [one per head of HEADS]}.

    A head has `attention`: the largest P of each BIN x BIN positions, a row per query bin, as 255 * sqrt(P);
    `row_sums`, the least and the largest sum of P over the keys; `error_max` and `error_median` of |O - truth| per
    query bin, with random V; `max_abs` and `median_abs` over all positions, and `rounding`, the largest error of
    attention with only the roundings that no 16-bit kernel avoids.
    """
    import torch

    from harness.operators.attention import reference

    q, k, v, o = _run()
    options: dict[str, Any] = {"scale": PROBLEM.scale, "causal": PROBLEM.causal}
    truth = reference.truth(q, k, v, **options)[0]
    rounded = reference.yardstick(q, k, v, **options)[0]
    blocks = SEQ // DIM
    attention = torch.cat([o[block].double() for block in range(blocks)], dim=2)
    error = (o[blocks].double() - truth[blocks]).abs()
    rounding = (rounded[blocks].double() - truth[blocks]).abs()
    heads = []
    for head, name in enumerate(HEADS):
        largest = attention[head].unfold(0, BIN, BIN).unfold(1, BIN, BIN).amax((2, 3))
        binned = error[head].reshape(SEQ // BIN, BIN * DIM)
        heads.append(
            {
                "name": name,
                "attention": (255 * largest.clamp(0, 1).sqrt()).round().int().tolist(),
                "row_sums": [bound.item() for bound in attention[head].sum(1).aminmax()],
                "error_max": _rounded(binned.amax(1)),
                "error_median": _rounded(binned.median(1).values),
                "max_abs": error[head].max().item(),
                "median_abs": error[head].median().item(),
                "rounding": rounding[head].max().item(),
            }
        )
    return {"seq": SEQ, "bin": BIN, "heads": heads}


def _path() -> Path:
    return CACHE / "structured_heads.json"


def _run() -> tuple[torch.Tensor, ...]:
    """q, k, v and the kernel's o."""
    import torch

    from harness import build
    from harness.operators.attention.arguments import scalars

    variant = build.load(CASE, on="cpu")
    heads_q, heads_k = structured()
    q, k = (heads.expand(PROBLEM.batch, -1, -1, -1).contiguous() for heads in (heads_q, heads_k))
    identity = torch.eye(SEQ, dtype=torch.float16).reshape(SEQ, SEQ // DIM, DIM).permute(1, 0, 2)
    v = torch.empty_like(k)
    v[:-1] = identity[:, None]
    v[-1] = torch.randn(v[-1].shape, generator=torch.Generator().manual_seed(1)).half()
    o, lse = torch.full_like(q, torch.nan), torch.empty(q.shape[:3])
    variant.launch({"q": q, "k": k, "v": v, "o": o, "lse": lse}, scalars(PROBLEM))
    return q, k, v, o


def _rounded(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.3g}") for value in values.tolist()]
