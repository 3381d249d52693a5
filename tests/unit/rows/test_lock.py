"""kernels.lock vouches for a row of another source of the same program, and for no other row."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.build import locking
from harness.catalog import sources, techniques
from harness.machine import processes
from harness.rows import lock, reading
from harness.rows.lock import Kernel
from tests.conftest import CHECKOUT
from tests.support.row_file import TIMING

THEN, NOW = "0" * 64, "2" * 64
SASS, TILE = "1" * 64, "64x64-s1-w4"
HASHES = {("scalar", "cuda"): NOW}


def locked(host_then: str = "launch", tile: str = TILE, sass: str = SASS, source: str = NOW) -> Kernel:
    known = {source[: lock.DIGITS]: "launch", THEN[: lock.DIGITS]: host_then}
    return Kernel("scalar", "cuda", "sm_90a", "nvcc 13.0.88", "13.0.88", known, {(tile, sass[: lock.DIGITS]): "a"})


@pytest.mark.parametrize(
    ("kernel", "change", "counts"),
    [
        (locked(), {}, True),
        (locked(), {"code": {}, "sass_sha256": SASS}, True),
        (locked(host_then="another launch"), {}, False),
        (locked(tile="128x64-s1-w4"), {}, False),
        (locked(sass="3" * 64), {}, False),
        (locked(source="3" * 64), {}, False),
        (locked(), {"source_sha256": "4" * 64}, False),
        (locked(), {"technique": "wmma"}, False),
        (locked(), {"backend": "triton"}, False),
        (locked(), {"code": {}}, False),
        (None, {}, False),
    ],
)
def test_a_row_counts_if_machine_code_and_launch_are_the_same(
    monkeypatch: pytest.MonkeyPatch, kernel: Kernel | None, change: dict[str, Any], counts: bool
) -> None:
    found = {(kernel.program, kernel.backend): [kernel]} if kernel else {}
    monkeypatch.setattr(lock, "_kernels", lambda: found)
    assert reading.is_current(TIMING | change, HASHES | {("wmma", "cuda"): NOW, ("scalar", "triton"): NOW}) == counts


@pytest.mark.parametrize("name", ["flagship", "flagship:trailing_store", "flagship:square_waves"])
def test_a_row_whose_tile_names_a_rung_needs_the_launch_of_that_rung(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tile = "128x256-s3-w8-schedule9"
    kernel = replace(locked(tile=tile), program=f"gemm/{name}")
    monkeypatch.setattr(lock, "_kernels", lambda: {(kernel.program, "cuda"): [kernel]})
    row = {"source_sha256": THEN, "sass_sha256": SASS}
    assert lock.vouches(row, ("gemm/flagship", "cuda"), NOW, tile) == (name == "flagship:trailing_store")


def test_a_lock_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "kernels.lock"
    path.write_text(lock.text([locked()]))
    assert lock.read(path) == {locked().key: locked()}
    assert lock.read(tmp_path / "none") == {}
    for line in ("kernel scalar", "source x", "b1 64x64 12", "\x1b[2J"):
        path.write_text(lock.HEAD + line)
        with pytest.raises(ValueError, match=r"kernels\.lock:2: got .*, expected a line that `build --lock` writes"):
            lock.read(path)


def test_the_lock_of_this_checkout_is_read_and_written_alike() -> None:
    assert lock.text(lock.read().values()) == lock.PATH.read_text()


SHFL, KERNEL = "cuda_kernels/ptx/shfl.cuh", "cuda_kernels/ptx/kernel.cuh"
CUDA = "cuda_kernels/attention/hopper/persistent.cu"
TRITON = "triton_kernels/attention/hopper/persistent.py"
EDITS = {
    "a comment": ("cuda", CUDA, lambda text: text + "\n// more\n", True),
    "device code": (
        "cuda",
        CUDA,
        lambda text: text.replace("row_max[half] = new_max", "row_max[half] = +new_max"),
        True,
    ),
    "a device header": (
        "cuda",
        "cuda_kernels/ptx/shfl.cuh",
        lambda text: text + "\nDEVICE int f() { return 1; }\n",
        True,
    ),
    "the grid": ("cuda", CUDA, lambda text: text.replace("{params.blocks, 1, 1}", "{params.tiles, 1, 1}"), False),
    "shared memory": ("cuda", CUDA, lambda text: text.replace("int bytes = ", "int bytes = 8 + "), False),
    "what launch calls": (
        "cuda",
        "cuda_kernels/attention/persistent_tiles.cuh",
        lambda text: text.replace("multiprocessors;", "2 * multiprocessors;"),
        False,
    ),
    "launching itself": (
        "cuda",
        "cuda_kernels/ptx/kernel.cuh",
        lambda text: text.replace("dim3(grid.x", "dim3(1"),
        False,
    ),
    "compiled Triton": (
        "triton",
        TRITON,
        lambda text: text.replace("row_max += tl.where", "row_max = row_max + tl.where"),
        True,
    ),
    "the launch of a rung that a tile names": (
        "cuda",
        "cuda_kernels/gemm/hopper/trailing_store.cu",
        lambda text: text.replace("level_waves(params.persistent);", ""),
        True,
    ),
    "its options": ("triton", TRITON, lambda text: text.replace("num_stages=tile.stages)", "num_stages=1)"), False),
    "its grid": ("triton", TRITON, lambda text: text.replace("persistent_grid)", "lambda q, tile: (1,))"), False),
}


@pytest.mark.parametrize("name", EDITS)
def test_host_code_is_told_from_device_code(tmp_path: Path, name: str) -> None:
    backend, file, edit, same = EDITS[name]
    path = techniques.get("gemm/flagship" if "gemm" in file else "attention/persistent").path
    for each in (CHECKOUT / file, *sources.files(backend, path)):
        copy = tmp_path / each.relative_to(CHECKOUT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, copy)
    before = lock.host_sha256(backend, path, tmp_path)
    text = (tmp_path / file).read_text()
    assert edit(text) != text, "the edit changes something"
    (tmp_path / file).write_text(edit(text))
    assert (lock.host_sha256(backend, path, tmp_path) == before) == same


def programs(count: int, source: str = THEN) -> list[dict[str, Any]]:
    """Rows of as many problems, each of machine code of its own."""
    return [
        TIMING
        | {"problem": TIMING["problem"] | {"batch": number}, "source_sha256": source, "tile": TIMING["tile"]}
        | {"code": TIMING["code"] | {"sass_sha256": str(number) * 64}}
        for number in range(1, count + 1)
    ]


@pytest.fixture
def update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., locking.Outcome]:
    """locking.update of rows of "scalar", whose source is THEN and then NOW; compilers answer what `made` says."""
    monkeypatch.setattr(lock, "host_sha256", lambda *_: "5" * 64)

    def call(rows: Iterable[dict[str, Any]], source: str, made: Callable[[str], Any] = str, **options: Any) -> Any:
        monkeypatch.setattr(sources, "source_sha256", lambda *_: source)

        def answers(kernel: Kernel, asked: Iterable[locking.Program], stop: object) -> list[Any]:
            return [((problem, tile), made(problem[1])) for problem, tile in asked]

        monkeypatch.setattr(locking, "compile_all", answers)
        return locking.update(rows, ["attention/scalar"], tmp_path / "kernels.lock", **options)

    return call


def test_what_an_edit_left_the_same_counts_again(tmp_path: Path, update: Callable[..., locking.Outcome]) -> None:
    rows, path = programs(3), tmp_path / "kernels.lock"
    assert update(rows, THEN) == locking.Outcome(), "rows of this source say what is locked"
    made = {"1": "1" * 16, "2": "9" * 16, "3": processes.NoAnswer("raised", "an error\nmore")}
    outcome = update(rows, NOW, made.__getitem__)
    assert (outcome.compiled, outcome.same, outcome.different) == (3, 1, 1)
    assert list(outcome.failed.values()) == ["an error"]
    (kernel,) = lock.read(path).values()
    assert kernel.source == NOW[: lock.DIGITS]
    assert {sass for _, sass in kernel.cells} == {"1" * 16, "9" * 16}
    assert update(rows, NOW, made.__getitem__).compiled == 0, "what is locked is not compiled again"


def test_machine_code_that_one_program_lost_vouches_for_none(
    tmp_path: Path, update: Callable[..., locking.Outcome]
) -> None:
    """Two problems that a compiler did not tell apart are two programs now, or have changed places."""
    rows, path = programs(2), tmp_path / "kernels.lock"
    update(rows, THEN)
    update(rows, NOW, {"1": "2" * 16, "2": "1" * 16}.__getitem__)
    (kernel,) = lock.read(path).values()
    assert kernel.cells == {}


def test_what_another_source_launched_otherwise_is_not_compiled(
    tmp_path: Path, update: Callable[..., locking.Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, path = programs(3), tmp_path / "kernels.lock"
    update(rows, THEN)
    rows[2] |= {"source_sha256": NOW}
    monkeypatch.setattr(lock, "host_sha256", lambda *_: "6" * 64)
    assert update(rows, NOW) == locking.Outcome()
    (kernel,) = lock.read(path).values()
    assert list(kernel.sources) == [NOW[: lock.DIGITS]]
    assert {sass for _, sass in kernel.cells} == {"3" * 16}


def test_an_interrupted_call_locks_nothing_half(tmp_path: Path, update: Callable[..., locking.Outcome]) -> None:
    rows, path = programs(2), tmp_path / "kernels.lock"
    update(rows, THEN)
    before = path.read_text()
    assert update(rows, NOW, stop=lambda: True) == locking.Outcome()
    assert path.read_text() == before
