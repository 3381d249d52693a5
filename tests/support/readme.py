"""The kernels that README has as examples."""

import re
from pathlib import Path

from harness.catalog.sources import ROOT


def my_kernel() -> str:
    """The text of its my_kernel.py."""
    (example,) = re.findall(r"```python\n(# my_kernel\.py\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(example)


def copied_kernel() -> Path:
    """The file that it copies to my_kernel.cu."""
    (source,) = re.findall(r"^cp (\S+) my_kernel\.cu", (ROOT / "README.md").read_text(), re.MULTILINE)
    return ROOT / source
