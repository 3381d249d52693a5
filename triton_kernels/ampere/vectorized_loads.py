"""16-byte accesses to global and shared memory: the same program as scalar.

Builds on scalar; changes nothing in core Triton. The missing lever is the width of an access: the compiler takes 16
bytes per thread wherever contiguity and divisibility, which it reads off the arguments, allow it.
"""

from triton_kernels.ampere.scalar import launch, specialize, workspace_bytes  # noqa: F401
