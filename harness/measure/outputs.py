"""What a GPU computed, kept so that the same kernels on a CPU can be held against it.

One file per problem, <slug>.npz: an `index` (JSON: technique -> tile, source_sha256, names of its o and lse) and the
arrays, each once, as many techniques give the same bits. They hold bit patterns less those of the first one of their
kind, which compresses well. Inputs are drawn on the CPU: the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from harness import variants
from harness.catalog.cases import Case, at_reference_tiles, source_sha256
from harness.catalog.problem import Problem
from harness.operators.attention import inputs, numerics, reference
from harness.rows import files, making
from harness.rows.renew import program

PROBLEMS = tuple(
    Problem.square(1, 2, 256, head_dim, dtype=dtype, causal=causal)
    for dtype, head_dim, causal in (("fp16", 64, False), ("fp16", 128, True), ("bf16", 64, True), ("bf16", 128, False))
)
"""Every pair of dtype, head dimension and mask."""
DISTRIBUTION, SEED = "normal", 0

_KINDS = {"o": torch.int16, "lse": torch.int32}

Pair = tuple[torch.Tensor, torch.Tensor]
"""o and lse, on the CPU."""


class Missing(LookupError):
    """No output of this case's source is in the folder."""


def compute(launch: Callable[..., object], problem: Problem, device: str) -> Pair:
    """o and lse of one launch on the inputs that all outputs here belong to."""
    given, out = inputs.make(problem, DISTRIBUTION, SEED, device), inputs.make_outputs(problem, device)
    launch(given.q, given.k, given.v, out.o, out.lse, scale=problem.scale, causal=problem.causal)
    return out.o.cpu(), out.lse.cpu()


def save(folder: Path, case: Case, source_sha256: str, pair: Pair) -> None:
    """Adds the output to the folder, in the place of an earlier one of this technique."""
    assert case.tile is not None
    path, names, mine = _file(folder, case.problem), {}, {}
    for kind, tensor in zip(_KINDS, pair, strict=True):
        bits = tensor.contiguous().view(_KINDS[kind]).numpy()
        names[kind] = f"{kind}_{hashlib.sha256(bits.tobytes()).hexdigest()[:12]}"
        mine[names[kind]] = bits
    with files.locked(folder):
        index, arrays = _read(path) if path.is_file() else ({}, {})
        index[case.technique] = {"tile": case.tile.to_dict(), "source_sha256": source_sha256, **names}
        _write(path, index, arrays | mine)


def rename(folder: Path, old: str, new: str) -> None:
    """Gives a technique another name in every file of the folder."""
    for path in sorted(folder.glob("*.npz")):
        index, arrays = _read(path)
        if old in index:
            _write(path, {new if name == old else name: entry for name, entry in index.items()}, arrays)


def renew(folder: Path, sources: Mapping[tuple[Any, ...], str]) -> None:
    """Gives the outputs of an earlier source this checkout's, where rows of the same program were renewed so:
    `sources` are rows.renew.Renewal's."""
    for path in sorted(folder.glob("*.npz")):
        index, arrays = _read(path)
        problem, before = Problem.parse(path.stem), json.dumps(index)
        for name, entry in index.items():
            row = {"technique": name, "backend": "cuda", "problem": problem.to_dict(), "tile": entry["tile"]}
            earlier = entry["source_sha256"]
            entry["source_sha256"] = sources.get((*program(row), earlier), earlier)
        if json.dumps(index) != before:
            _write(path, index, arrays)


def load(folder: Path, case: Case, source_sha256: str) -> Pair:
    """What `save` was given. Raises Missing when there is nothing for this technique, tile and source, or a file that
    no `save` wrote."""
    path, dtype = _file(folder, case.problem), inputs.DTYPES[case.problem.dtype]
    try:
        entry = _entry(folder, case, source_sha256)
        _, arrays = _read(path)
        o, lse = (torch.from_numpy(arrays[entry[kind]]) for kind in ("o", "lse"))
    except (OSError, EOFError, ValueError, AttributeError, KeyError, BadZipFile) as error:
        raise Missing(f"{path}: not outputs ({error}); restore it from git or save them anew") from None
    return o.view(dtype), lse.view(torch.float32)


def compared(
    names: Iterable[str],
    folder: Path,
    progress: Callable[[int, int, str], None] = lambda *_: None,
    find: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _: None,
) -> Iterator[dict[str, Any]]:
    """Rows of kind outputs: do the CUDA twins of these techniques give on a CPU what a GPU gave, on problems of fp16?

    `gpu` is its name, `details` are the figures of numerics.judge_same, and as `of` what the CPU was compared with. A
    twin of which the folder has another source, or that does not run here, has no row: the gate's rows say so.
    `progress(done, total, case)` follows each. `find` gives the row of an earlier run, which stands where it compared
    with the same.
    """
    problems = [problem for problem in PROBLEMS if problem.dtype == "fp16"]
    cases = at_reference_tiles("outputs", names, ("cuda",), problems)
    for number, case in enumerate(cases, 1):
        progress(number, len(cases), str(case))
        sha256 = source_sha256(case)
        assert sha256 is not None
        about = making.about(case, on="cpu", source_sha256=sha256, kind="outputs", gpu=folder.parent.name)
        try:
            entry = _entry(folder, case, sha256)
            of = f"{entry['o']} {entry['lse']}"
            if (earlier := find(about)) and earlier["details"].get("of") == of:
                yield earlier
                continue
            other = load(folder, case, sha256)
            mine = compute(variants.load(case, on="cpu").launch, case.problem, "cpu")
        except (Missing, variants.Unsupported, variants.CompileError, variants.LaunchError):
            continue
        verdict = numerics.judge_same(*mine, *other, reference.expect(case.problem, DISTRIBUTION, SEED, "cpu"))
        status = {"status": "passed"} if verdict.passed else {"status": "wrong", "reason": verdict.reason}
        yield {**about, **status, "details": {**verdict.numerics, "of": of}}


def _entry(folder: Path, case: Case, source_sha256: str) -> dict[str, Any]:
    """What the index says of a technique. Raises Missing when there is nothing for this tile and source."""
    path = _file(folder, case.problem)
    entry: dict[str, Any] = _index(path).get(case.technique, {}) if path.is_file() else {}
    assert case.tile is not None
    if entry.get("source_sha256") != source_sha256 or entry.get("tile") != case.tile.to_dict():
        what = "of another source or tile" if entry else "missing"
        raise Missing(
            f"{path.name}: the output of {case.technique} is {what}; record it on a GPU: "
            f"twinkernels check {case.technique} --on gpu --backend cuda --save-outputs {folder}"
        )
    return entry


def _file(folder: Path, problem: Problem) -> Path:
    return folder / f"{problem.slug}.npz"


def _index(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        index: dict[str, Any] = json.loads(str(file["index"]))
    return index


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(path) as file:
        stored = {name: file[name] for name in sorted(file.files) if name != "index"}
    return _index(path), {name: bits if first is bits else bits + first for name, bits, first in _with_first(stored)}


def _write(path: Path, index: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    used = sorted({entry[kind] for entry in index.values() for kind in _KINDS})
    kept = _with_first({name: arrays[name] for name in used})
    stored = {name: bits if first is bits else bits - first for name, bits, first in kept}
    with files.replacing(path) as file:
        np.savez_compressed(file, index=np.array(json.dumps(index, sort_keys=True)), **stored)


def _with_first(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Each array with the first one of its kind, o or lse."""
    first: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        yield name, array, first.setdefault(name.partition("_")[0], array)
