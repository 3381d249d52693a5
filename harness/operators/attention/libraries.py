"""Attention libraries that are installed beside torch: what they are called and whether they import here. Standard
library only."""

from harness.operators.protocol import Library

LIBRARIES = {
    "fa2": Library(
        "flash-attn 2",
        "flash_attn.flash_attn_interface",
        "flash-attn",
        "pip install flash-attn --no-build-isolation",
        "flash-attn",
    ),
    "fa3": Library("flash-attn 3", "fa3_fwd_interface", "fa3-fwd", "pip install fa3-fwd", "flash-attn-3"),
    "fa4": Library("flash-attn 4", "flash_attn.cute", "flash-attn-4", "pip install flash-attn-4", "flash-attn-4"),
}
