"""Machine code is read right: opcodes, spills and shared memory of known binaries, the same hash for the same code."""

import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cuda_kernels import build
from harness import operators
from harness.build import Case, build_cuda, compiling, environment_of, gpu_arch, load, machine_code, prebuild
from harness.catalog import sources, techniques
from harness.operators.attention.problem import Problem
from harness.setup import doctor
from tests.support import children

SASS = """
        code for sm_90a
                Function : {name}
        /*{a}*/                   MOV R1, c[0x0][0x28] ;                 /* 0x00000a0000017a02 */
                                                                         /* 0x000fe40000000f00 */
        /*{b}*/              @P0  HMMA.16816.F32.BF16 R4, R8, R12, R4 ;  /* 0x0000000c0804723c */
                                                                         /* 0x000fe40000041804 */
        /*{c}*/              @!PT LDS RZ, [RZ] ;                         /* 0x00000000fffff984 */
                                                                         /* 0x000fe20000000800 */
        /*{d}*/                   NOP;                                   /* 0x0000000000007918 */
                                                                         /* 0x000fc00000000000 */
"""


@pytest.mark.parametrize(
    ("opcode", "names"),
    [
        ("HMMA.16816.F32.BF16", ["HMMA"]),
        ("HFMA2.MMA", []),  # moves a constant; no matrix product
        ("HGMMA.64x64x16.F32.BF16", ["HGMMA"]),
        ("UTCHMMA", ["UTCHMMA"]),
        ("UTCHMMA.2CTA", ["UTCHMMA"]),
        ("LDSM.16.M88.4", ["LDSM", "LDSM.x4"]),
        ("LDSM.16.MT88.2", ["LDSM.T"]),
        ("LDGSTS.E.BYPASS.128", ["LDGSTS"]),
        ("LDG.E.128.CONSTANT", ["LDG.128"]),
        ("LDG.E.U16", ["LDG.16"]),
        ("STG.E", ["STG.32"]),
        ("STS.64", ["STS.64"]),
        ("MUFU.EX2", ["MUFU.EX2"]),
        ("MUFU.RCP", []),
        ("BAR.SYNC.DEFER_BLOCKING", ["BAR"]),
        ("BAR.ARV", ["BAR", "BAR.ARV"]),
        ("WARPGROUP.DEPBAR.LE", ["WARPGROUP.DEPBAR"]),
        ("WARPGROUP.ARRIVE", ["WARPGROUP.ARRIVE"]),
        ("UCGABAR_ARV", ["UCGABAR"]),
        ("UCGABAR_WAIT", ["UCGABAR"]),
        ("STSM.16.MT88.4", ["STSM"]),
        ("SHFL.BFLY", ["SHFL"]),
        ("FFMA.FTZ", ["FFMA"]),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT", ["SYNCS"]),
        ("USETMAXREG.DEALLOC.CTAPOOL", ["USETMAXREG"]),
        ("UTMALDG.4D", ["UTMALDG"]),
        ("UTMALDG.4D.MULTICAST", ["UTMALDG", "UTMALDG.MULTICAST"]),
    ],
)
def test_an_opcode_counts_under_its_names(opcode: str, names: list[str]) -> None:
    assert machine_code._names(opcode) == ["instructions", *names]


def test_what_never_executes_is_not_counted() -> None:
    counts, _ = machine_code.count(SASS.format(name="k", a="0000", b="0010", c="0020", d="0030"))
    assert counts["instructions"] == 2
    assert counts["HMMA"] == 1
    assert counts["LDS.32"] == 0
    assert set(counts) == set(machine_code.CENSUS)


def test_the_hash_covers_instructions_not_names_or_addresses() -> None:
    text = SASS.format(name="k", a="0000", b="0010", c="0020", d="0030")
    elsewhere = SASS.format(name="_GLOBAL__N__1_k", a="0100", b="0110", c="0120", d="0130")
    changed = text.replace("0x0000000c0804723c", "0x0000000c0804723d")
    assert machine_code.count(text)[1] == machine_code.count(elsewhere)[1] != machine_code.count(changed)[1]


@pytest.mark.parametrize(
    ("found", "expected"), [(("FFMA",), "fma"), (("FFMA", "HMMA"), "mma_sync"), (("FFMA", "HMMA", "HGMMA"), "wgmma")]
)
def test_the_instruction_class_is_that_of_the_matrix_products(found: tuple[str, ...], expected: str) -> None:
    assert machine_code.mma_class({name: int(name in found) for name in machine_code.CENSUS}) == expected


SAID = (
    "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the function '_ZN1xE'\n"
    "ptxas info    : (C7519) Potential Performance Loss: warpgroup.arrive is injected in around line 40 by compiler to "
    "allow use of registers in GMMA in function '_ZN1xE'\n"
)


def test_what_the_assembler_says_about_wgmma_is_kept() -> None:
    assert machine_code.remarks("ptxas info    : Used 168 registers, used 1 barriers\n") == []
    expected = ["serialized due to insufficient register resources", "warpgroup.arrive is injected"]
    assert machine_code.remarks(SAID) == machine_code.remarks(SAID + SAID) == expected


KERNEL = """
extern "C" __global__ void kernel(float4* x, const float* y, int n) {
  __shared__ float4 tile[64];
  float a[48];
  for (int i = 0; i < 48; ++i) a[i] = y[i * n + threadIdx.x];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < 48; ++i) sum = sum * a[i] + tile[j].x;
  x[threadIdx.x] = make_float4(sum, sum, sum, sum);
}
"""


@pytest.fixture(scope="module")
def nvcc() -> str:
    found = doctor.nvcc()
    if found is None:
        pytest.skip("no nvcc here")
    return found


@pytest.mark.slow
def test_registers_spills_and_shared_memory_of_a_known_kernel(nvcc: str, tmp_path: Path) -> None:
    source, ptx = tmp_path / "kernel.cu", tmp_path / "kernel.ptx"
    source.write_text(KERNEL)
    subprocess.run([nvcc, "-ptx", "-arch=compute_80", "-o", ptx, source], check=True)

    def code(arch: str, smem_bytes: int, *flags: str) -> dict[str, Any]:
        cubin = tmp_path / f"kernel_{arch}{len(flags)}.cubin"
        subprocess.run([Path(nvcc).with_name("ptxas"), f"-arch={arch}", *flags, "-o", cubin, ptx], check=True)
        return machine_code.read(cubin, smem_bytes=smem_bytes)

    for arch in ("sm_80", "sm_90a", "sm_120a"):
        whole = code(arch, 4096)
        assert whole["spill_bytes"] == whole["census"]["STL"] == 0
        assert 48 < whole["registers"] < 128
        assert whole["smem_bytes"] == 4096 + 64 * 16, "what CUDA reserves from sm_90 on must not be counted"
        assert whole["census"]["LDG.128"] == whole["census"]["STS.128"] == whole["census"]["STG.128"] == 1
        assert whole["census"]["BAR"] == 1

        starved = code(arch, 0, "-maxrregcount=32")
        assert starved["registers"] <= 32
        assert starved["spill_bytes"] >= 4 * 16
        assert starved["census"]["STL"] > 0


def test_a_file_without_machine_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.cubin").write_bytes(b"not a cubin")
    with pytest.raises(machine_code.DisassemblerError, match=r"empty\.cubin"):
        machine_code.disassemble(tmp_path / "empty.cubin")


def case(backend: str, name: str = "mma_ldmatrix") -> Case:
    tile = techniques.reference_tile(techniques.of_qualified(name), 64)
    return Case("test", name, backend, Problem.square(2, 2, 256, 64), tile)


def inspect(one: Case, arch: str, ptxas: str = "bundled") -> dict[str, Any]:
    """compiling.inspect, in a process of the case's environment and of this assembler: Triton reads its path once."""
    environment = {**(environment_of(one) or {}), **({} if ptxas == "bundled" else {"ASSEMBLER": ptxas})}
    found: dict[str, Any] = children.call(compiling.inspect, one, arch, ptxas, environment=environment)
    return found


def by_environment(backend: str) -> list[list[Case]]:
    """The kernels that this series has, in groups that one process can load."""
    groups: dict[str, list[Case]] = {}
    for technique in techniques.TECHNIQUES:
        one = case(backend, technique.name)
        assert one.tile is not None
        if sources.has_series(backend, technique.path) and not techniques.unsupported(
            technique, backend, one.problem, one.tile
        ):
            groups.setdefault(json.dumps(environment_of(one), sort_keys=True), []).append(one)
    return list(groups.values())


def launched(first: Case, *names: str) -> dict[str, list[Any]]:
    """Technique -> `code` of the binary that was launched, `code` of what a machine without a GPU compiles."""
    from harness.measure import arenas

    backend = first.backend
    cases = {name: case(backend, name) for name in names}
    loads = {name: load(one) for name, one in cases.items()}
    build._torch_has_cuda = lambda: False  # the same library would be read twice
    jobs = os.cpu_count() if backend == "cuda" else 1  # nvcc is a process of its own, Triton's compiler is not
    with ThreadPoolExecutor(jobs) as pool:
        ahead = pool.map(lambda one: compiling.inspect(one, gpu_arch())["code"], cases.values())
    codes = {}
    for (name, one), compiled in zip(cases.items(), ahead, strict=True):
        variant = loads[name]
        tensors, outputs = arenas.make(one.problem, "normal", 0, "cuda"), arenas.make_outputs(one.problem, "cuda")
        variant.launch({**tensors.tensors, **outputs.tensors}, {"scale": one.problem.scale, "causal": False})
        codes[name] = [variant.code(), compiled]
    return codes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "expected"), [("cuda", "mma_sync"), ("triton", "mma_sync"), ("triton_native", "wgmma")]
)
def test_every_series_gets_its_instruction_class_on_hopper(nvcc: str, backend: str, expected: str) -> None:
    found = inspect(case(backend), "sm_90a")
    assert found["mma"] == expected
    assert set(found["compiler"]) == {"front_end", "ptxas", "flags"}
    assert ("DISABLE_MMA_V3=1" in found["compiler"]["flags"]) == (backend == "triton")


@pytest.mark.slow
def test_one_assembler_for_both_languages(nvcc: str) -> None:
    shared, bundled = inspect(case("triton"), "sm_120a", "shared"), inspect(case("triton"), "sm_120a")
    assert shared["compiler"]["ptxas"] == inspect(case("cuda"), "sm_120a")["compiler"]["ptxas"]
    assert shared["compiler"]["ptxas"] != bundled["compiler"]["ptxas"]
    assert shared["code"]["sass_sha256"] != bundled["code"]["sass_sha256"]


def test_a_process_of_the_wrong_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISABLE_MMA_V3", raising=False)
    with pytest.raises(RuntimeError, match="DISABLE_MMA_V3: got None, expected '1'"):
        compiling.inspect(case("triton"), "sm_90a")


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [64, 128])
def test_the_softmax_lock_encloses_the_softmax(nvcc: str, head_dim: int) -> None:
    """ptxas may move arithmetic across a barrier: the exponentials must stand between the wait and the arrival."""
    tile = techniques.reference_tile(techniques.get("softmax_lock"), head_dim)
    one = Case("test", "softmax_lock", "cuda", Problem.square(2, 2, 256, head_dim), tile)
    library = build_cuda(one, "sm_90a").library
    sass = machine_code.listing(library, "-sass")
    softmax = re.search(r"BAR\.SYNC\S* R\d+, 0x100(.*?)BAR\.ARV", sass, re.DOTALL)
    assert softmax[1].count("MUFU.EX2") == sass.count("MUFU.EX2")
    assert "HMMA" not in softmax[1]


def test_an_unknown_assembler_is_refused() -> None:
    with pytest.raises(ValueError, match="ptxas: got 'mine', expected bundled"):
        compiling.inspect(case("cuda"), "sm_90a", "mine")


def test_what_a_binary_holds_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    binary = machine_code.Binary(32, 0, 16, {"HMMA": 1}, "abc")
    monkeypatch.setattr(machine_code, "_disassemble", lambda path: reads.append(path) or binary)
    first, second = tmp_path / "first.cubin", tmp_path / "second.cubin"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    for path in (first, first, second):
        assert machine_code.disassemble(path, tmp_path / "cache") == binary
    assert reads == [first, second]


@pytest.mark.gpu
@pytest.mark.parametrize("backend", techniques.SERIES)
def test_what_is_launched_is_what_is_compiled_ahead_of_time(backend: str) -> None:
    for group in by_environment(backend):
        names = [one.technique or "" for one in group]
        prebuild(group)  # here, for it has processes of its own, which a child may not
        codes = children.call(launched, group[0], *names, environment=environment_of(group[0]))
        assert list(codes) == names
        for name, (loaded, ahead) in codes.items():
            assert loaded == ahead, name


def test_twins_of_one_technique_are_all_built_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    built = list[str]()
    monkeypatch.setattr(compiling, "gpu_arch", lambda: "sm_90a")
    monkeypatch.setattr(
        compiling.processes, "answers", lambda jobs, *_, **__: built.extend(case.backend for _, (case, _) in jobs) or ()
    )
    technique, problem = techniques.get("gemm/persistent"), operators.parse("gemm-m256-n256-k256-bf16")
    tile = techniques.reference_tile(technique, problem.tile_key)
    prebuild(Case("tests", "gemm/persistent", backend, problem, tile) for backend in ("cuda", "triton", "gluon"))
    assert sorted(built) == ["cuda", "gluon", "triton"]
