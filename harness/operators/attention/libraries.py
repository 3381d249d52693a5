"""Attention libraries that are installed beside torch: what they are called and whether they import here. Standard
library only."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """`module` is what a peer imports, `distribution` what has its version, `install` how to get it. `software` is the
    name under which the environments of rows have the version."""

    name: str
    module: str
    distribution: str
    install: str
    software: str

    def fault(self) -> str | None:
        """Why a peer cannot use it and what to do about it; None when it can."""
        try:
            found = importlib.util.find_spec(self.module)
        except ModuleNotFoundError:  # of its parent package
            found = None
        except Exception as error:  # the parent package runs: built for another torch, it fails in many ways
            return f"{self.name} does not import ({type(error).__name__}: {error}); build it anew: {self.install}"
        return None if found else f"{self.name} is not installed: {self.install}"


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
"""Backend of the peer -> its library."""
