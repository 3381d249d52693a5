"""Names of Gluon that differ between Triton 3.6 and 3.9, each under one name for all twins.

Probes look up such a name themselves: a reader runs them with Triton alone.
"""

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import tma

block_barrier = getattr(gl, "barrier", None) or gl.thread_barrier
"""A barrier of all threads of a partition, or of the block if it has no partitions. Renamed in 3.7."""

cp_async = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared
"""Copies from global to shared memory by cp.async. Renamed in 3.8."""

load_async = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
"""Copies a tile from global to shared memory by TMA. Renamed in 3.8."""

store_async = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
"""Copies a tile from shared to global memory by TMA. Renamed in 3.8."""

REINTERPRET_RENAMED = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))
"""Whether a view under another layout is `reinterpret`, as since 3.9, or `_reinterpret`, as before. It is a method, so
the kernel asks."""
