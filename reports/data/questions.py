"""The question that each experiment's page opens with."""

from __future__ import annotations

import ast
from pathlib import Path

from harness.catalog import sources
from harness.rows import reading

COMMANDS = {
    "tune": """Which tile is fastest, in each language?

Every tile of a technique's grid goes through the gate; the fastest there are timed together. The winner is the best
tile of later runs.""",
    "ncu": """What do the GPU's counters say of each kernel?

One launch each under NVIDIA's Nsight Compute, with cold caches.""",
    "sanitizer": "Do NVIDIA's sanitizers find an error in a kernel?",
    "sanitizer_planted": """Do NVIDIA's sanitizers find an error that is known to be there?

Kernels with a planted bug: what the silence of a tool is worth.""",
    "inspect": """What is each kernel made of?

Registers, spills, shared memory and instructions, read from compiled code.""",
    "memory": """What does each CUDA kernel do when it runs?

Counted on a CPU, instruction by instruction.""",
}
"""What those ask that are commands and have no file in experiments/."""

SHARED_PTXAS = {
    "ladder": "What does each step buy, with one assembler for both languages?",
    "what_triton_misses": "How much of the gap is the assembler's?",
}
"""First lines for rows whose Triton programs were assembled by nvcc's ptxas, by experiment."""


def question(name: str, root: Path = sources.ROOT) -> str:
    """In its first line; further paragraphs say how it is asked. The docstring of experiments/<name>.py where there is
    one; empty where nothing is known."""
    if name.endswith(reading.SHARED_PTXAS):
        experiment = name.removesuffix(reading.SHARED_PTXAS)
        first = SHARED_PTXAS.get(experiment) or question(experiment, root).partition("\n")[0]
        return (
            f"{first}\n\nThe Triton programs of the experiment {experiment}, assembled by the ptxas of the CUDA twins "
            "instead of the one that Triton brings."
        )
    path = root / "experiments" / "attention" / f"{name}.py"
    return (ast.get_docstring(sources.parse(path)) or "") if path.is_file() else COMMANDS.get(name, "")
