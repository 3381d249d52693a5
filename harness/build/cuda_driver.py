"""The few calls of the CUDA driver that load a cubin, encode a tensor map and launch a kernel, by ctypes.

As the launchers of Triton make them, attribute for attribute: what differs between two Tritons on one GPU is then the
machine code alone. Needs libcuda.so.1 and, as every kernel, a context that is current, such as torch's.
"""

import ctypes
from collections.abc import Sequence
from ctypes import c_int, c_uint32, c_uint64, c_void_p
from functools import cache
from typing import Any

from harness.operators.errors import LaunchError

MAX_DYNAMIC_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
PREFER_SHARED_MEMORY = 1  # CU_FUNC_CACHE_PREFER_SHARED
COOPERATIVE, CLUSTER_DIMENSION, CLUSTER_SCHEDULING, PROGRAMMATIC_SERIALIZATION = 2, 4, 5, 6  # CUlaunchAttributeID
SPREAD = 1  # CU_CLUSTER_SCHEDULING_POLICY_SPREAD: the blocks of a cluster on different multiprocessors
MAP_BYTES = 128  # of a CUtensorMap
PROMOTE_128_BYTES = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B
SMALL_TENSOR = 128 * 1024
"""Bytes below which drivers up to DRIVER_WITH_FLAW set a bit of a tensor map that they should not."""
DRIVER_WITH_FLAW = 13010


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: the value is a union of 64 bytes."""

    _fields_ = [("id", c_int), ("_", c_int), ("value", c_uint32 * 16)]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((name, c_uint32) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("number_of_attributes", c_uint32),
    ]


@cache
def _library() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    """A function of the driver. Raises LaunchError with the driver's words, OSError where there is no driver."""
    if code := getattr(_library(), name)(*arguments):
        text = ctypes.c_char_p()
        _library().cuGetErrorString(c_int(code), ctypes.byref(text))
        raise LaunchError(f"{name}: {(text.value or b'unknown error').decode()} (CUDA error {code})", code)


def load(cubin: bytes, kernel: str, shared: int) -> c_void_p:
    """The kernel of a cubin in the current context, for as long as the process lives; its blocks get `shared` bytes of
    dynamic shared memory. Raises LaunchError."""
    module, function = c_void_p(), c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), cubin)
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
    if shared > 48 * 1024:
        call("cuFuncSetCacheConfig", function, c_int(PREFER_SHARED_MEMORY))
        call("cuFuncSetAttribute", function, c_int(MAX_DYNAMIC_SHARED_MEMORY), c_int(shared))
    return function


def tensor_map(
    address: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    *,
    kind: int,
    bytes: int,
    swizzle: int,
) -> Any:
    """A CUtensorMap of a tensor of `sizes` and `strides` in elements, the innermost last, as a buffer of MAP_BYTES.

    `box` is what one copy brings, `kind` a CUtensorMapDataType of `bytes` an element, `swizzle` a CUtensorMapSwizzle.
    What lies outside of the tensor reads as zero. Raises LaunchError.
    """
    rank = len(sizes)
    storage = ctypes.create_string_buffer(MAP_BYTES + 63)
    found = (ctypes.c_char * MAP_BYTES).from_buffer(storage, -ctypes.addressof(storage) % 64)
    inner_first, steps = sizes[::-1], [stride * bytes for stride in strides[-2::-1]]
    call(
        *("cuTensorMapEncodeTiled", found, c_int(kind), c_uint32(rank), c_void_p(address)),
        *((c_uint64 * rank)(*inner_first), (c_uint64 * rank)(*steps), (c_uint32 * rank)(*box[::-1])),
        *((c_uint32 * rank)(*[1] * rank), c_int(0), c_int(swizzle), c_int(PROMOTE_128_BYTES), c_int(0)),
    )
    last = sum((size - 1) * step for size, step in zip(inner_first, (bytes, *steps), strict=True))
    if _version() <= DRIVER_WITH_FLAW and last + 1 < SMALL_TENSOR:
        words = (c_uint64 * 16).from_buffer(found)
        words[1] &= ~(1 << 21)
    return found


@cache
def _version() -> int:
    version = c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    return version.value


class Launch:
    """A launch of `function` that can be made again and again: its arguments are fixed. `arguments` are ctypes objects,
    in the order of the kernel's parameters. `grid` counts clusters of `blocks` blocks, as Triton's grids count
    programs."""

    def __init__(
        self,
        function: c_void_p,
        arguments: Sequence[Any],
        *,
        grid: Sequence[int],
        threads: int,
        shared: int,
        blocks: int = 1,
        cooperative: bool = False,
        programmatic: bool = False,
    ) -> None:
        self._function, self._arguments = function, list(arguments)
        self._pointers = (c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        attributes: list[tuple[int, tuple[int, ...]]] = []
        if programmatic:
            attributes.append((PROGRAMMATIC_SERIALIZATION, (1,)))
        if cooperative:
            attributes.append((COOPERATIVE, (1,)))
        if blocks > 1:
            attributes += [(CLUSTER_DIMENSION, (blocks, 1, 1)), (CLUSTER_SCHEDULING, (SPREAD,))]
        self._attributes = (_Attribute * max(len(attributes), 1))()
        for place, (name, value) in zip(self._attributes, attributes, strict=False):
            place.id, place.value[: len(value)] = name, value
        x, y, z = (*grid, 1, 1)[:3]
        self._config = _Config(x * blocks, y, z, threads, 1, 1, shared, None, self._attributes, len(attributes))

    def __call__(self, stream: int) -> None:
        """Launches on a stream (a CUstream as a number). Raises LaunchError."""
        self._config.stream = stream
        call("cuLaunchKernelEx", ctypes.byref(self._config), self._function, self._pointers, None)
