"""What ratios and techniques are called on pages."""

from __future__ import annotations

LABELS = {
    "fa4_deterministic": "flash-attn 4, deterministic",
    "backward": "attention backward in CUDA",
    "backward_triton": "attention backward in core Triton",
    "backward_gluon": "attention backward in Gluon",
    "backward_deterministic": "attention backward in CUDA, deterministic",
    "backward_gap_explained": "Share of the gap from core Triton to the flagship that has a cause",
}
"""Library or side of a ratio -> its name, beside those of attention."""
