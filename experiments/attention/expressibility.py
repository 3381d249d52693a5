"""What can each language say, and who decides: the source, the compiler, or nobody?

The answers come from compiling, not from measuring: harness/expressibility holds a grade for every technique and
language, and the programs that prove it.
"""

import sys

if __name__ == "__main__":
    sys.path[0] += "/../.."  # import from this checkout
    from harness.setup.script import become

    become("expressibility")

from harness.catalog.entries import Experiment

EXPERIMENT = Experiment(
    backends=(),
    peers=(),
    modes=(),
)
