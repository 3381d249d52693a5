"""K has two shared-memory buffers, V has one, and they reuse the shared memory of Q.

Builds on batched_m_tiles. Core Triton leaves the buffers of each tensor to the compiler: a load in the pipeline has
num_stages - 1 buffers, a load outside it has one and goes through registers, and no option says where a buffer lies.

So this is the same program as exp2_softmax.
"""

from triton_kernels.attention.ampere.exp2_softmax import twin  # noqa: F401
