"""Launches a case twice on tests/support/fake_libcuda.c: by the launcher of the Triton that this Python has, through
its JIT, and by build.cubins. Prints a JSON object: what each launch gave the driver, `triton` and `ours`.

    python both_launches.py CASE [NAME,NAME ...]    pairs of parameters that ours exchanges, to see that it shows

`exchanged` has our launch for each pair.
"""

import json
import os
import pickle
import site
import sys
from pathlib import Path

ARCH = "sm_90a"
ALIGNMENT = 128
"""Bytes, of the memory in which a kernel makes descriptors; a GPU's memory always has it."""


def launches() -> list[dict[str, object]]:
    """What was launched since the last call."""
    log = Path(os.environ["FAKE_LIBCUDA_LOG"])
    found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    log.unlink(missing_ok=True)
    return [call for call in found if call["call"] == "cuLaunchKernelEx"]


def main(request: str, *exchanged: str) -> None:
    for place in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        site.addsitedir(place)  # runs the .pth files there, before Triton is imported: a plugin registers itself by one
    import torch
    import triton
    from triton.backends.nvidia.driver import CudaDriver

    from harness.build import cubin_child, cubins
    from harness.build import triton as language
    from triton_kernels.attention import specialization

    case, _ = pickle.loads(bytes.fromhex(request))
    problem, tile = case.problem, case.tile
    driver = CudaDriver()
    driver.get_current_device, driver.get_current_stream = lambda: 0, lambda device: 0
    driver.get_device_capability = lambda device=0: (9, 0)
    triton.runtime.driver.set_active(driver)

    strides = specialization.packed_strides(problem)
    dtype = specialization.DTYPES[problem.dtype]
    shapes = [(problem.batch, problem.heads, problem.seq_q, problem.head_dim)] * 4
    shapes[1:3] = [(problem.batch, problem.heads_kv, problem.seq_kv, problem.head_dim)] * 2
    tensors = [torch.empty_strided(shape, stride, dtype=dtype) for shape, stride in zip(shapes, strides, strict=True)]
    tensors.append(torch.empty(shapes[0][:3], dtype=torch.float32))
    variant = cubins.CubinVariant(case, ARCH)
    memory = torch.zeros(variant.workspace_bytes + ALIGNMENT, dtype=torch.uint8)
    start = -memory.data_ptr() % ALIGNMENT
    workspace = memory[start : start + variant.workspace_bytes] if variant.workspace_bytes else None
    variant._workspace = lambda device: workspace
    ptx = language.compile_triton(case, ARCH).asm["ptx"]
    os.environ["FAKE_LIBCUDA_SIZES"] = ",".join(map(str, cubin_child.declared_sizes(ptx)))

    given = {"scale": 0.125, "causal": problem.causal}
    language.twin_of(case).launch(*tensors, **given, tile=tile, workspace=workspace)
    found: dict[str, object] = {"triton": launches()}
    parameters, ours = variant.about["parameters"], []
    for pair in (",", *exchanged):
        one, other = pair.split(",")
        swap = {one: other, other: one}
        variant.about["parameters"] = [[swap.get(name, name), kind] for name, kind in parameters]
        variant.bind(dict(zip(("q", "k", "v", "o", "lse"), tensors, strict=True)), given)()
        ours.append(launches())
    print(json.dumps({**found, "ours": ours[0], "exchanged": ours[1:]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
