"""The kernel that README has as an example."""

from __future__ import annotations

import re

from harness.catalog.sources import ROOT


def my_kernel() -> str:
    """The text of its my_kernel.py."""
    (example,) = re.findall(r"```python\n(# my_kernel\.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(example)
