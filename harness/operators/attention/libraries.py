"""Attention libraries that are installed beside torch: what they are called and whether they import here. Standard
library only."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from harness.operators.attention import fa3_library

FA3 = "flash-attn 3"


@dataclass(frozen=True)
class Library:
    """`module` is what a peer imports, `distribution` what has its version, `install` how to get it."""

    name: str
    module: str
    distribution: str
    install: str

    def fault(self) -> str | None:
        """Why a peer cannot use it and what to do about it; None when it can."""
        if self.name == FA3 and fa3_library.path():
            return fa3_library.fault()
        try:
            found = importlib.util.find_spec(self.module)
        except ModuleNotFoundError:  # of its parent package
            found = None
        except Exception as error:  # the parent package runs: built for another torch, it fails in many ways
            return f"{self.name} does not import ({type(error).__name__}: {error}); build it anew: {self.install}"
        return None if found else f"{self.name} is not installed: {self.install}"


LIBRARIES = {
    "fa2": Library(
        "flash-attn 2", "flash_attn.flash_attn_interface", "flash-attn", "pip install flash-attn --no-build-isolation"
    ),
    "fa3": Library(
        FA3,
        "flash_attn_interface",
        "flash-attn-3",
        f"build hopper/ of flash-attention, or name its forward as a C library by {fa3_library.VARIABLE}",
    ),
    "fa4": Library("flash-attn 4", "flash_attn.cute", "flash-attn-4", "pip install flash-attn-4"),
}
"""Backend of the peer -> its library."""
