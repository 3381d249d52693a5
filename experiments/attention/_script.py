"""Makes an experiment a script: `python FILE` imports this, which becomes `twinkernels run` of that experiment."""

import sys

sys.path[0] += "/../.."  # import from this checkout

from harness.setup.script import become

become("run")
