"""In which order the kernels of a compiled library compute a softmax: their main loops, read from its machine code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness.build import instruction_order
from harness.build.machine_code import DisassemblerError
from harness.build.roofs import listing


def main_loops(path: Path) -> list[dict[str, Any]]:
    """Of a cubin, a shared library or an executable: {kernel, main_loop} of every kernel with wgmma in a loop that has
    exponentials. main_loop is what instruction_order.read says: of several such loops the shortest, the steps without a
    mask. Raises DisassemblerError for a file without machine code.
    """
    _, *found = re.split(r"^\s*Function : (\S+)$", listing(path), flags=re.MULTILINE)
    if not found:
        raise DisassemblerError(f"{path.name}: got a file without kernels")
    loops = zip(found[::2], map(instruction_order.read, found[1::2]), strict=True)
    return [{"kernel": name, "main_loop": loop} for name, loop in loops if loop]
