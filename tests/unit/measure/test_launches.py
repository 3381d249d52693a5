"""A program of a user's file is launched again as its run() launched it, by cubins of several Tritons."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.build import cuda_driver
from harness.build.launches import Program
from harness.measure import launches, timing

PARAMETERS = [["x_desc", "nvTmaDesc"], *([f"x_desc.shape.{dim}", "i32"] for dim in (0, 1))]
PARAMETERS += [*([f"x_desc.strides.{dim}", "i64"] for dim in (0, 1)), ["y_ptr", "*fp32"], ["scale", "fp32"]]
PARAMETERS += [["global_scratch", "*i8"], ["profile_scratch", "*i8"]]
ABOUT = {
    "kernel": "copied",
    "threads": 128,
    "shared": 4104,
    "blocks": 1,
    "cooperative": False,
    "programmatic": False,
    "parameters": PARAMETERS,
    "constants": {"alpha": 3},
    "multiples_of_16": ["y_ptr"],
    "scratch_bytes": 0,
    "maps": {"x_desc": {"swizzle": 3, "elem_size": 4, "elem_type": 7, "block_size": [32, 32]}},
}
"""As cubin_child.launch says it of a kernel with a descriptor."""


@pytest.mark.slow
def test_a_cubin_gets_the_arguments_of_run_and_each_version_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[dict[str, Any]] = []

    class Launch:
        def __init__(self, function: Any, arguments: list[Any], **rest: Any) -> None:
            bound.append({"function": function, "values": [getattr(one, "value", one) for one in arguments], **rest})

        def __call__(self, stream: int) -> None: ...

    def tensor_map(address: int, sizes: list[int], strides: list[int], box: list[int], **rest: Any) -> Any:
        return address, sizes, strides, box, rest["swizzle"]

    monkeypatch.setattr(cuda_driver, "load", lambda cubin, kernel, shared: (cubin, kernel, shared))
    monkeypatch.setattr(cuda_driver, "tensor_map", tensor_map)
    monkeypatch.setattr(cuda_driver, "Launch", Launch)
    monkeypatch.setattr(timing, "CudaStopwatch", timing.HostStopwatch)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    x = torch.zeros(64, 64)
    descriptor = SimpleNamespace(base=x, shape=[64, 64], strides=[64, 1])
    program = Program("copied", lambda: None, {"x_desc": descriptor, "y_ptr": x, "scale": 2.5, "alpha": 3}, (2, 1))
    made = {
        version: {"launch": json.dumps(ABOUT), "cubin": cubin} for version, cubin in (("3.6.0", "aa"), ("3.9.0", "bb"))
    }
    made["3.8.0"] = {"launch": json.dumps({"declined": "RuntimeError: no launcher"}), "cubin": "cc"}
    said = launches.timed(program, made)
    assert [one["function"] for one in bound] == [(b"\xaa", "copied", 4104), (b"\xbb", "copied", 4104)]
    address = x.data_ptr()
    mapped = address, [64, 64], [64, 1], [32, 32], 3
    assert bound[0]["values"] == [mapped, 64, 64, 64, 1, address, 2.5, 0, 0]
    assert (bound[0]["grid"], bound[0]["threads"], bound[0]["shared"]) == ((2, 1), 128, 4104)
    assert said["3.8.0"] == "RuntimeError: no launcher"
    assert all(isinstance(said[version], float) for version in ("3.6.0", "3.9.0"))
