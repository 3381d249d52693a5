"""Runs in a Python that has another Triton: compiles one case, and says what a launch of its cubin must know.

    python -m harness.build.cubin_child CASE FOLDER

CASE is a pickled (case, architecture), in hexadecimal digits. FOLDER gets `cubin` and `launch.json`, as
build.cubins reads them. The order of the parameters is that of Triton's launchers: a tensor map is followed by the
sizes and strides of its tensor, and all by two pointers to scratch memory. It is compared with the parameters that the
PTX declares.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import site
import sys
from pathlib import Path
from typing import Any

MANY = 2**20
"""More multiprocessors than any GPU has."""


def main(request: str, folder: str) -> None:
    for place in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        site.addsitedir(place)  # runs the .pth files there: a plugin of Triton's registers itself by one
    from harness.build import machine_code, tritons
    from harness.build import triton as language

    case, arch = pickle.loads(bytes.fromhex(request))
    language.require_environment(case)
    specialized = language.specialized(case, arch)
    kernel = language.compile_triton(case, arch)
    compiler = machine_code.triton_compiler(kernel)
    if case.backend.startswith("tlx"):
        compiler["front_end"] += f", {tritons.PLUGIN}"
    about = {
        "compiler": compiler,
        "compile_s": language.compile_seconds(kernel),
        "code": machine_code.read_triton(kernel),
        **launch(specialized, kernel),
        **grid(case, arch),
    }
    (Path(folder) / "launch.json").write_text(json.dumps(about))
    (Path(folder) / "cubin").write_bytes(kernel.asm["cubin"])


def launch(specialized: Any, kernel: Any) -> dict[str, Any]:
    """Attributes of the launch and the kernel's parameters: by name, in order, each with its type. Raises RuntimeError
    for what no launcher here can do."""
    metadata, signature = kernel.metadata, specialized.signature
    descriptors = [name for name, kind in signature.items() if str(kind).startswith("tensordesc")]
    maps = dict(zip(descriptors, metadata.tensordesc_meta or [], strict=False))
    if set(maps) != set(descriptors):
        raise RuntimeError(
            f"{metadata.name}: descriptors without tensor maps, for {metadata.target.arch}; not launched"
        )
    if metadata.profile_scratch_size:
        raise RuntimeError(f"{metadata.name}: needs scratch memory of a profiler, which no launch here has")
    parameters = [each for name, kind in signature.items() for each in expanded(name, kind, maps.get(name))]
    parameters += [("global_scratch", "*i8"), ("profile_scratch", "*i8")]
    if (described := [size(kind) for _, kind in parameters]) != (declared := declared_sizes(kernel.asm["ptx"])):
        raise RuntimeError(f"{metadata.name}: parameters of {described} bytes, but the PTX declares {declared}")
    names = specialized.function.arg_names
    constants = {names[path[0]]: value for path, value in specialized.constexprs.items()}
    plain = {name: value for name, value in constants.items() if isinstance(value, int | float)}
    multiples = [
        names[path[0]] for path, attributes in specialized.attrs.items() if ["tt.divisibility", 16] in attributes
    ]
    return {
        "kernel": metadata.name,
        "threads": 32 * metadata.num_warps,
        "shared": metadata.shared,
        "blocks": metadata.num_ctas,
        "cooperative": metadata.launch_cooperative_grid,
        "programmatic": metadata.launch_pdl,
        "parameters": parameters,
        "maps": maps,
        "constants": plain,
        "multiples_of_16": multiples,
        "scratch_bytes": metadata.global_scratch_size,
    }


def expanded(name: str, kind: str, tensor_map: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The parameters that one of the function becomes."""
    if kind == "constexpr":
        return []
    if tensor_map is None:
        return [(name, kind)]
    dims = range(len(tensor_map["block_size"]))
    return [
        (name, "nvTmaDesc"),
        *((f"{name}.shape.{dim}", "i32") for dim in dims),
        *((f"{name}.strides.{dim}", "i64") for dim in dims),
    ]


def size(kind: str) -> int:
    if kind == "nvTmaDesc":
        return 128
    return 8 if kind.startswith("*") else max(int(re.sub(r"\D", "", kind)) // 8, 1)


def declared_sizes(ptx: str) -> list[int]:
    entry = ptx[ptx.index(".entry") :]
    found = re.findall(r"\.param (?:\.align \d+ )?\.[a-z](\d+)[^,\n\[]*(?:\[(\d+)\])?", entry[: entry.index(")")])
    return [int(bits) // 8 * int(count or 1) for bits, count in found]


def grid(case: Any, arch: str) -> dict[str, Any]:
    """Programs of a launch, and how many of them a multiprocessor has where the kernel takes no more than those."""
    from harness.build import triton as language

    specialization: Any = importlib.import_module(f"triton_kernels.{case.problem.operator}.specialization")
    grids = []
    for multiprocessors in (1, MANY):
        specialization.MULTIPROCESSORS_ELSEWHERE = multiprocessors
        grids.append(language.specialized(case, arch).grid)
    one, many = grids
    return {"programs": many, "programs_of_multiprocessor": one[0] if one != many else None}


if __name__ == "__main__":
    main(*sys.argv[1:])
