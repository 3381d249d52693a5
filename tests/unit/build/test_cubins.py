"""Cubins of other Tritons: our launch is, byte by byte, that of the Triton that made them; what is wrong has a reason.

The driver is tests/support/fake_libcuda.c, which writes down what it is given.
"""

import ctypes
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.build import (
    LaunchError,
    Unsupported,
    compiling,
    cubin_child,
    cubins,
    cuda_driver,
    loading,
    tritons,
)
from harness.build.launches import Program
from harness.build.triton import environment_of
from harness.catalog import sources, techniques
from harness.catalog import tiles as tiles_of
from harness.catalog.cases import Case, of_experiment, source_sha256
from harness.catalog.entries import Tile
from harness.catalog.experiments import load as load_experiment
from harness.measure import launches, runner, timing
from harness.operators.attention.problem import Problem
from tests.conftest import CHECKOUT
from triton_kernels.attention import specialization

SUPPORT = CHECKOUT / "tests" / "support"
INSTALLED = tritons.installed()
ARCH = "sm_90a"
GROUPED = Problem(2, 4, 2, 1024, 1024, 128, causal=True)
RAGGED = Problem(2, 4, 4, 1000, 900, 64, dtype="fp16", layout="bshd")
SMALL = Problem.square(1, 1, 200, 128, causal=True)
FLAGSHIP = Tile(128, 128, 2, 8)
CASE = Case("test", "flagship", "gluon@3.9.0", GROUPED, FLAGSHIP)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda.so.1 that launches nothing."""
    folder = tmp_path_factory.mktemp("driver")
    compiler = shutil.which("cc") or shutil.which("g++") or "cc"
    command = [compiler, "-x", "c", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1")]
    subprocess.run([*command, str(SUPPORT / "fake_libcuda.c")], check=True)
    return folder


# Beside Triton's own launcher


def case_of(backend: str, technique: str, problem: Problem, tile: Tile) -> Any:
    """A parameter of the test: what the installed Triton compiles runs with `make test`."""
    case = Case("test", technique, backend, problem, tile)
    installed = backend.partition("@")[2] == INSTALLED and not backend.startswith("tlx")
    return pytest.param(case, marks=pytest.mark.slow if installed else pytest.mark.full, id=str(case))


CASES = [
    case_of("triton_native@3.6.0", "scores_in_flight", RAGGED, Tile(128, 64, 2, 8)),
    *(case_of(f"gluon@{version}", "flagship", GROUPED, FLAGSHIP) for version in techniques.RELEASES[1:]),
    case_of("gluon@3.9.0", "flagship", SMALL, FLAGSHIP),
    case_of("triton@3.9.0", "flagship", RAGGED, Tile(64, 128, 1, 4)),
    case_of("triton@3.9.0", "producer_consumer", GROUPED, Tile(128, 64, 3, 8)),
    case_of("triton@3.8.0", "cp_async_pipeline", replace(GROUPED, heads_kv=4), Tile(128, 64, 2, 8)),
    case_of("tlx@3.8.0", "flagship", GROUPED, FLAGSHIP),
    *(case_of(f"gluon@{version}", "cluster_multicast", RAGGED, FLAGSHIP) for version in techniques.RELEASES[2:]),
]


def both_launches(case: Case, driver: Path, *exchanged: str) -> dict[str, Any]:
    """What Triton's launcher and ours give the driver, in a Python that has this Triton."""
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        pytest.skip("Triton builds its launcher: needs Python.h, of python3-dev")
    if not tritons.is_here(*cubins._triton(case)):
        pytest.skip(f"{tritons.name(*cubins._triton(case))} is not in build/triton")
    cubins.compile(case, ARCH)
    variables = tritons.variables(*cubins._triton(case)) | (environment_of(case) or {})
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (variables["PYTHONPATH"], str(sources.ROOT))))
    variables |= {"LD_LIBRARY_PATH": str(driver), "TRITON_LIBCUDA_PATH": str(driver)}
    variables |= {"FAKE_LIBCUDA_LOG": str(driver / f"{os.getpid()}.log")}
    request = pickle.dumps((case, ARCH)).hex()
    command = [sys.executable, str(SUPPORT / "both_launches.py"), request, *exchanged]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", CASES)
def test_our_launch_is_byte_by_byte_that_of_the_triton_that_made_the_cubin(case: Case, driver: Path) -> None:
    found = both_launches(case, driver)
    assert len(found["triton"]) == 1
    assert found["ours"] == found["triton"]


@pytest.mark.slow
def test_two_arguments_exchanged_would_show_and_the_cubin_is_what_triton_launches(driver: Path) -> None:
    """Of a launch that is Triton's as it stands."""
    case = Case("test", "tma_store", f"gluon@{INSTALLED}", replace(GROUPED, head_dim=64), Tile(128, 64, 2, 8))
    exchanged = ("q_desc,o_desc", "batches,heads", "k_desc.shape.1,q_desc.shape.1")
    found = both_launches(case, driver, *exchanged)
    assert found["ours"] == found["triton"]
    about = cubins.known(case, ARCH)
    names, (by_triton,) = [name for name, _ in about["parameters"]], found["triton"]
    for pair, (ours,) in zip(exchanged, found["exchanged"], strict=True):
        values = zip(by_triton["parameters"], ours["parameters"], strict=True)
        assert {name for name, (one, other) in zip(names, values, strict=True) if one != other} == set(pair.split(","))
    found = compiling.inspect(replace(case, backend="gluon"), ARCH)
    assert about["code"] == found["code"]
    assert about["compiler"] == found["compiler"]


# What a launch needs to know, by hand


@pytest.fixture
def about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A description with a cubin beside it, as `compile` leaves them; `save` writes it again."""
    monkeypatch.setattr(cubins, "FOLDER", tmp_path)
    cubin = b"\x7fELF of a kernel"
    dims = range(4)
    described = {
        "triton": "3.9.0",
        "arch": ARCH,
        "source_sha256": source_sha256(CASE),
        "format": hashlib.sha256(sources.code(Path(cubin_child.__file__)).encode()).hexdigest(),
        "compiler": {"front_end": "triton 3.9.0", "ptxas": "13.4.59", "flags": ""},
        "compile_s": 1.5,
        "code": {"registers": 168},
        "kernel": "flagship",
        "threads": 384,
        "shared": 197_616,
        "blocks": 1,
        "cooperative": False,
        "programmatic": False,
        "parameters": [
            ["q_desc", "nvTmaDesc"],
            *([f"q_desc.shape.{dim}", "i32"] for dim in dims),
            *([f"q_desc.strides.{dim}", "i64"] for dim in dims),
            *(["lse_ptr", "*fp32"], ["counter", "*i32"], ["scale", "fp32"], ["seq_kv", "i32"]),
            *(["global_scratch", "*i8"], ["profile_scratch", "*i8"]),
        ],
        "maps": {"q_desc": {"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [1, 1, 64, 64]}},
        "constants": {"group": 2, "HEAD_DIM": 128},
        "multiples_of_16": ["lse_ptr", "seq_kv"],
        "scratch_bytes": 0,
        "programs": [64],
        "programs_of_multiprocessor": 1,
        "cubin": hashlib.sha256(cubin).hexdigest(),
    }
    sources.put(tmp_path / f"{described['cubin']}.cubin", cubin)
    save(described)
    return described


def save(about: dict[str, Any], arch: str = ARCH) -> None:
    sources.put(cubins._file(CASE, arch), json.dumps(about).encode())


NAMES, SCALARS = ("q", "k", "v", "o", "lse"), {"scale": 0.25, "causal": True}


def tensors() -> tuple[torch.Tensor, ...]:
    p = GROUPED
    query, keys = (p.batch, p.heads, p.seq_q, p.head_dim), (p.batch, p.heads_kv, p.seq_kv, p.head_dim)
    shaped = [torch.zeros(shape, dtype=torch.bfloat16) for shape in (query, keys, keys, query)]
    return (*shaped, torch.zeros(query[:3]))


@pytest.fixture
def calls(driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the driver of this test's process writes its calls."""
    handle = ctypes.CDLL(str(driver / "libcuda.so.1"))
    monkeypatch.setattr(cuda_driver, "_library", lambda: handle)
    log = tmp_path / "calls.jsonl"
    monkeypatch.setenv("FAKE_LIBCUDA_LOG", str(log))
    monkeypatch.setenv("FAKE_LIBCUDA_SIZES", "128,4,4,4,4,8,8,8,8,8,8,4,4,8,8")
    return log


def launched(calls: Path) -> dict[str, Any]:
    """The last call of the driver, after a launch of CASE."""
    cubins.CubinVariant(CASE, ARCH).bind(dict(zip(NAMES, tensors(), strict=True)), SCALARS)()
    last: dict[str, Any] = json.loads(calls.read_text().splitlines()[-1])
    return last


def test_arguments_lie_in_the_order_and_the_types_of_the_parameters(about: dict[str, Any], calls: Path) -> None:
    given = tensors()
    variant = cubins.CubinVariant(CASE, ARCH)
    workspace = torch.zeros(variant.workspace_bytes, dtype=torch.uint8)
    variant._workspace = lambda device: workspace  # type: ignore[method-assign]
    call = variant.bind(dict(zip(NAMES, given, strict=True)), SCALARS)
    assert call() == {"o": given[3], "lse": given[4]}
    call()
    made = [json.loads(line) for line in calls.read_text().splitlines()]
    assert [one["call"] for one in made] == [
        *("cuTensorMapEncodeTiled", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"),
        *("cuLaunchKernelEx", "cuLaunchKernelEx"),
    ], "encoded and loaded once, launched twice"
    last = made[-1]
    assert last["grid"] == [3, 1, 1], "one program a multiprocessor, of which a CPU counts as three"
    assert (last["block"], last["shared"], last["attributes"]) == ([384, 1, 1], 197_616, [])
    pointers = [tensor.data_ptr().to_bytes(8, "little").hex() for tensor in (given[4], workspace)]
    assert last["parameters"][1:] == [
        *(n.to_bytes(4, "little").hex() for n in (2, 4, 1024, 128)),
        *(n.to_bytes(8, "little").hex() for n in (4 * 1024 * 128, 1024 * 128, 128, 1)),
        *(*pointers, "0000803e", (1024).to_bytes(4, "little").hex(), "00" * 8, "00" * 8),
    ]
    described = bytes.fromhex(last["parameters"][0])
    assert list(described[:6]) == [9, 4, 0, 3, 2, 0], "bf16, 4 dimensions, a swizzle of 128 bytes, zeros outside"
    assert int.from_bytes(described[16:24], "little") == given[0].data_ptr()


def test_scratch_memory_of_all_programs_comes_before_the_counter(about: dict[str, Any], calls: Path) -> None:
    save(about | {"scratch_bytes": 640})
    variant = cubins.CubinVariant(CASE, ARCH)
    assert variant.workspace_bytes == 64 * 640 + specialization.COUNTER_BYTES
    workspace = torch.zeros(variant.workspace_bytes, dtype=torch.uint8)
    variant._workspace = lambda device: workspace  # type: ignore[method-assign]
    variant.bind(dict(zip(NAMES, tensors(), strict=True)), SCALARS)()
    counter, *_, scratch, profile = json.loads(calls.read_text().splitlines()[-1])["parameters"][10:]
    addresses = [int.from_bytes(bytes.fromhex(one), "little") for one in (counter, scratch, profile)]
    assert addresses == [workspace.data_ptr() + 64 * 640, workspace.data_ptr(), 0]


def test_a_kernel_that_needs_too_much_shared_memory_is_declined(
    about: dict[str, Any], calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = SimpleNamespace(shared_memory_per_block_optin=about["shared"] - 1, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    with pytest.raises(Unsupported, match=r"a block needs 197616 bytes of shared memory, of which this GPU has 197615"):
        cubins.CubinVariant(CASE, ARCH).bind(dict(zip(NAMES, tensors(), strict=True)), SCALARS)


def test_blocks_of_a_cluster_are_counted_in_the_grid(about: dict[str, Any], calls: Path) -> None:
    save(about | {"blocks": 2, "programs_of_multiprocessor": None, "cooperative": True, "programmatic": True})
    found = launched(calls)
    assert found["grid"] == [128, 1, 1]
    values = {6: (1, 0, 0), 2: (1, 0, 0), 4: (2, 1, 1), 5: (1, 0, 0)}
    assert found["attributes"] == [
        [name, b"".join(n.to_bytes(4, "little") for n in value).hex()] for name, value in values.items()
    ]


@pytest.mark.parametrize(
    "call",
    ["cuTensorMapEncodeTiled", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernelEx"],
)
def test_an_error_of_the_driver_is_a_sentence(
    call: str, about: dict[str, Any], calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LIBCUDA_FAILS", call)
    variant = cubins.CubinVariant(CASE, ARCH)
    with pytest.raises(LaunchError) as caught:
        variant.launch(dict(zip(NAMES, tensors(), strict=True)), SCALARS)
    words = "no kernel image is available for execution on the device (CUDA error 209)"
    assert str(caught.value) == f"{CASE}: {call}: {words}"
    assert caught.value.code == 209


def test_tensors_that_the_program_was_not_compiled_for_are_refused(about: dict[str, Any], calls: Path) -> None:
    variant = cubins.CubinVariant(CASE, ARCH)
    variant.about["constants"]["group"] = 1
    with pytest.raises(ValueError, match="group: got 2, expected 1 as compiled for"):
        variant.bind(dict(zip(NAMES, tensors(), strict=True)), SCALARS)
    variant.about |= {"constants": {}, "multiples_of_16": ["q_stride_row", "group"]}
    with pytest.raises(ValueError, match="group: got 2, expected a multiple of 16"):
        variant.bind(dict(zip(NAMES, tensors(), strict=True)), SCALARS)


def test_a_cubin_that_is_there_says_what_its_row_says_and_is_not_compiled_again(
    about: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tritons, "variables", lambda *_: pytest.fail("compiled again"))
    assert cubins.compile(CASE, ARCH) == json.loads(json.dumps(about))
    variant = cubins.CubinVariant(CASE, ARCH)
    said = variant.code(), variant.compiler, variant.compile_s, variant.source_sha256
    assert said == (about["code"], about["compiler"], 1.5, source_sha256(replace(CASE, backend="gluon")))


REMEDY = (
    "`twinkernels inspect attention/flagship --backend gluon@3.9.0 --problem b2-h4k2-n1024-d128-bf16-causal "
    "--tile 128x128-s2-w8 --arch sm_90a` makes it on a machine that has triton 3.9.0; then carry build/cubins here"
)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda about: shutil.rmtree(cubins.FOLDER), "no cubin for sm_90a is in build/cubins"),
        (
            lambda about: cubins._file(CASE, ARCH).rename(cubins._file(CASE, "sm_120a")),
            "no cubin for sm_90a is in build/cubins, but for sm_120a: ",
        ),
        (lambda about: save(about | {"triton": "3.8.0"}), "the cubin's triton: got 3.8.0, expected 3.9.0"),
        (
            lambda about: save(about | {"source_sha256": "0" * 64}),
            "the cubin's source_sha256: got 000000000000, expected",
        ),
        (lambda about: save(about | {"format": "1" * 64}), "the cubin's format: got 111111111111, expected"),
        (lambda about: save(about | {"arch": "sm_120a"}), "the cubin's arch: got sm_120a, expected sm_90a"),
        (lambda about: cubins._cubin(about).unlink(), "the cubin "),
        (lambda about: cubins._cubin(about).write_bytes(b"\x7fELF cut"), " is missing or damaged"),
    ],
    ids=["none", "elsewhere", "version", "sources", "format", "architecture", "cubin", "damaged"],
)
def test_a_cubin_that_cannot_be_used_is_a_row_with_the_reason_and_the_command(
    spoil: Any, reason: str, about: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(about)
    monkeypatch.setattr(loading, "available", lambda backend, on: None)
    monkeypatch.setattr(loading, "gpu_arch", lambda: ARCH)
    with pytest.raises(Unsupported) as caught:
        loading.load(CASE)
    assert reason in str(caught.value)
    assert str(caught.value).endswith(f": {REMEDY}")


@pytest.mark.slow
def test_where_no_gpu_is_the_row_says_what_can_be_done_here(tmp_path: Path) -> None:
    rows = runner.run(load_experiment("hopper_versions"), on="cpu", path=tmp_path / "rows.jsonl", selected=[CASE])
    (row,) = [row for row in rows if row["kind"] == "gate"]
    assert (row["status"], row["backend"]) == ("unsupported", "gluon@3.9.0")
    assert row["reason"] == "a cubin runs on a GPU; `twinkernels inspect` compiles and reads it here"
    assert row["source_sha256"] == source_sha256(CASE)


def test_a_triton_that_is_not_here_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubins, "FOLDER", tmp_path / "cubins")
    monkeypatch.setattr(tritons, "FOLDER", tmp_path / "tritons")
    with pytest.raises(Unsupported, match=r"triton 3\.9\.0: not in build/triton, .*\(999 MB\); .*--install"):
        cubins.compile(CASE, ARCH)


def test_declared_sizes_are_read_from_the_ptx() -> None:
    ptx = """.visible .entry kernel(
        .param .align 64 .b8 kernel_param_0[128],
        .param .u32 kernel_param_1,
        .param .u64 .ptr .global .align 1 kernel_param_2,
        .param .f32 kernel_param_3
    )
    .reqntid 384 { .param .b32 call; }"""
    assert cubin_child.declared_sizes(ptx) == [128, 4, 8, 4]
    assert [cubin_child.size(kind) for kind in ("nvTmaDesc", "i32", "*bf16", "fp32", "i1")] == [128, 4, 8, 4, 1]


# A version is a series


def test_a_version_has_the_file_the_limits_the_tile_and_the_environment_of_its_language() -> None:
    flagship = techniques.get("attention/flagship")
    assert sources.kernel_file("gluon@3.9.0", flagship.path) == sources.kernel_file("gluon", flagship.path)
    asked = ["triton@3.9.0", "triton_native@3.9.0", "gluon@3.9.0", "tlx@3.8.0"]
    assert sources.series(asked, flagship.path) == ["triton@3.9.0", "gluon@3.9.0", "tlx@3.8.0"]
    assert sources.series(asked, "attention/ampere/scalar") == ["triton@3.9.0", "triton_native@3.9.0"]
    odd, problem = Tile(192, 80, 3, 12), Problem.square(4, 16, 4096, 128)
    for backend in ("gluon", "gluon@3.9.0", "tlx@3.8.0"):
        assert "powers of two" in (techniques.unsupported(flagship, backend, problem, odd) or "")
    cases = of_experiment(load_experiment("hopper_versions"), "h200")
    tiles = {(case.backend, case.problem): case.tile for case in cases if case.technique}
    assert {backend for backend, _ in tiles} == set(load_experiment("hopper_versions").backends)
    chosen = tiles_of.read(tiles_of.folder("attention") / "h200.toml")
    tuned = {(one.backend, one.cell): one.tile for one in chosen if one.technique == "flagship" and "@" in one.backend}
    assert {backend for backend, _ in tuned} == {"tlx@3.8.0"}
    for (backend, problem), tile in tiles.items():
        own = tuned.get((backend, problem.cells[0]))
        assert tile == (own or tiles[tiles_of.compared_with(backend), problem]) is not None
        assert techniques.unsupported(flagship, backend, problem, tile) is None
    for backend in ("triton", "triton_native", "gluon"):
        case = Case("test", "tma_swizzle", backend, GROUPED, Tile(128, 64, 2, 8))
        assert environment_of(replace(case, backend=f"{backend}@3.9.0")) == environment_of(case)


# A program of a user's file, launched again as its run() launched it

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

    class Steady(timing.HostStopwatch):
        """The times of launches of nothing would not settle within the seconds of a group."""

        def measure(self, *asked: Any) -> list[float]:
            return [1.0 for _ in super().measure(*asked)]

    def tensor_map(address: int, sizes: list[int], strides: list[int], box: list[int], **rest: Any) -> Any:
        return address, sizes, strides, box, rest["swizzle"]

    monkeypatch.setattr(cuda_driver, "load", lambda cubin, kernel, shared: (cubin, kernel, shared))
    monkeypatch.setattr(cuda_driver, "tensor_map", tensor_map)
    monkeypatch.setattr(cuda_driver, "Launch", Launch)
    monkeypatch.setattr(timing, "CudaStopwatch", Steady)
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
