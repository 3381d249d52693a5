"""Imported by an experiment that Python was called with: `twinkernels run` of it takes the place of this process."""

import sys

sys.path[0] += "/../.."  # import from this checkout

from harness.setup.script import become

become("run")
