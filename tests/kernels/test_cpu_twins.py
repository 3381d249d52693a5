"""Every wrapper in cuda_kernels/ptx has its CPU twin: the same header, name and parameters, for every type."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from cuda_kernels.cpu_build import HERE

_FUNCTION = re.compile(
    r"^(?:template <(?P<template>[^;{]*?)>\s+)?(?:DEVICE [^;{}()]*?\b|(?:inline )?Error )"
    r"(?P<name>\w+)(?P<special><[^()]*?>)?\((?P<parameters>(?:[^;{]|\{\})*?)\)\s*(?P<end>[;{])",
    re.MULTILINE,
)
_MACRO = re.compile(r"^#define (\w+)\((\w+)\b[^)]*\)((?:.*\\\n)*.*\n)", re.MULTILINE)


@dataclass(frozen=True)
class Wrapper:
    """A function of a header: `special` is what a specialization is for, such as <__half>; `parameters` are types."""

    name: str
    special: str
    parameters: tuple[str, ...]
    is_defined: bool
    template: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}{self.special}({', '.join(self.parameters)})"

    def serves(self, other: Wrapper) -> bool:
        """Can this be called as `other` can? A defined template is there for every type."""
        if self.name != other.name or (other.is_defined and not self.is_defined):
            return False
        if self.special != other.special and (self.special or not self.template):
            return False
        names = "|".join(self.template) or "(?!)"
        ours = (re.sub(rf"\b(?:{names})\b", "\0", types) for types in self.parameters)
        patterns = [re.escape(types).replace("\0", ".+") for types in ours]
        return len(patterns) == len(other.parameters) and all(map(re.fullmatch, patterns, other.parameters))


def expanded(header: Path) -> str:
    """Its text without comments, and with what its macros make in the place of their definitions."""
    text = re.sub(r"//.*", "", header.read_text())
    for macro, parameter, body in _MACRO.findall(text):
        made = re.sub(r"^  | *\\$", "", body, flags=re.MULTILINE)
        text = re.sub(
            rf"^{macro}\((\w+),.*$",
            lambda use, made=made, name=parameter: re.sub(rf"\b{name}\b", use[1], made),
            text,
            flags=re.MULTILINE,
        )
    return re.sub(r"^#define .*\n", "", _MACRO.sub("", text), flags=re.MULTILINE)


def wrappers(header: Path) -> list[Wrapper]:
    """The functions that a header of ptx/ offers. Fails when there is one that it does not understand."""
    text = expanded(header)
    found = list(_FUNCTION.finditer(text))
    places = {match.start() + match[0].index("DEVICE") for match in found if "DEVICE" in match[0]}
    unread = [
        place
        for place in re.finditer(r"^(?!  ).*?\bDEVICE\b", text, re.MULTILINE)
        if place.end() - len("DEVICE") not in places
    ]
    assert not unread, f"{header.name}: not understood: {text[unread[0].start() :].splitlines()[0]}"
    return [
        Wrapper(
            match["name"],
            match["special"] or "",
            tuple(types for one in split(match["parameters"]) if (types := type_of(one)) != "Where"),
            match["end"] == "{",
            tuple(one.split("=")[0].split()[-1] for one in split(match["template"] or "")),
        )
        for match in found
    ]


def split(parameters: str) -> list[str]:
    """At the commas outside of brackets."""
    depth, parts = 0, [""]
    for character in parameters:
        depth += (character in "<([") - (character in ">)]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [" ".join(part.split()) for part in parts if part.strip()]


def type_of(parameter: str) -> str:
    """`const uint32_t (&a)[4]` -> `const uint32_t (&)[4]`."""
    declared = parameter.split(" = ")[0]
    if "(&" in declared:
        return re.sub(r"\(&\w*\)", "(&)", declared)
    return re.sub(r"(?<=[ &*])\w+$", "", declared).strip() or declared


def missing(ptx: Path, twins: Path) -> list[str]:
    """header: wrapper, for everything in `ptx` that `twins` lacks."""
    lacking = []
    for header in sorted(ptx.glob("*.cuh")):
        twin = twins / header.name
        there = wrappers(twin) if twin.is_file() else []
        lacking += [
            f"{header.name}: {one}" for one in wrappers(header) if not any(other.serves(one) for other in there)
        ]
    return lacking


def orphans(ptx: Path, twins: Path) -> list[str]:
    """header: wrapper, for everything in `twins` that serves nothing in `ptx`."""
    found = []
    for twin in sorted(twins.glob("*.cuh")):
        offered = wrappers(ptx / twin.name) if (ptx / twin.name).is_file() else []
        found += [f"{twin.name}: {one}" for one in wrappers(twin) if not any(map(one.serves, offered))]
    return found


def test_every_wrapper_has_its_twin() -> None:
    assert missing(HERE / "ptx", HERE / "cpu" / "ptx") == []


def test_no_twin_is_an_orphan() -> None:
    assert orphans(HERE / "ptx", HERE / "cpu" / "ptx") == []


def test_wrappers_are_found() -> None:
    found = {header.name: {str(one) for one in wrappers(header)} for header in (HERE / "ptx").glob("*.cuh")}
    assert {"tid_x()", "launch_kernel(Grid, int, int, void*, const Params&)"} <= found["kernel.cuh"]
    assert {"cvt_f32(__half)", "cvt_f32(__nv_bfloat16)", "cvt_rn<__nv_bfloat16>(float)"} <= found["math.cuh"]
    assert {"bar_sync()", "bar_sync(int, int)"} <= found["barrier.cuh"]
    assert "wgmma_mma_async_rs(float (&)[N / 2], const uint32_t (&)[4], uint64_t, int)" in found["wgmma.cuh"]
    assert "wmma_load_a_row(WmmaOperand<__nv_bfloat16>&, uint32_t, int)" in found["wmma.cuh"]
    assert all(found.values())


@pytest.mark.parametrize(
    ("header", "removed", "lacking"),
    [
        ("barrier", r"DEVICE void bar_sync\(int barrier(?s:.*?)\n}\n", "bar_sync(int, int)"),
        ("math", r"DEVICE float cvt_f32\(__nv_bfloat16 x\).*\n", "cvt_f32(__nv_bfloat16)"),
        ("math", r"template <>\nDEVICE __nv_bfloat16 cvt_rn(?s:.*?)\n}\n", "cvt_rn<__nv_bfloat16>(float)"),
        (
            "wmma",
            r"template <class T>\nDEVICE void wmma_load_b_col(?s:.*?)\n}\n",
            "wmma_load_b_col(WmmaOperand<__half>&, uint32_t, int)",
        ),
        ("ldmatrix", None, "ldmatrix_x2(uint32_t (&)[2], uint32_t)"),
    ],
)
def test_a_missing_twin_is_named(tmp_path: Path, header: str, removed: str | None, lacking: str) -> None:
    """An overload, a specialization, a template, a whole header."""
    shutil.copytree(HERE / "cpu" / "ptx", tmp_path, dirs_exist_ok=True)
    twin = tmp_path / f"{header}.cuh"
    if removed is None:
        twin.unlink()
    else:
        text, times = re.subn(removed, "", twin.read_text())
        assert times == 1
        twin.write_text(text)
    assert missing(HERE / "ptx", tmp_path)[0] == f"{header}.cuh: {lacking}"


@pytest.mark.parametrize(
    ("line", "wrapper"),
    [
        ("DEVICE constexpr int lane_of(int tid) { return tid % 32; }", "lane_of(int)"),
        ("DEVICE const float* row_of(const float* first, int row) { return first; }", "row_of(const float*, int)"),
        ("DEVICE unsigned long long globaltimer() { return 0; }", "globaltimer()"),
        ("DEVICE auto answer = 42;", None),
    ],
)
def test_no_wrapper_is_overlooked(tmp_path: Path, line: str, wrapper: str | None) -> None:
    (tmp_path / "new.cuh").write_text(f"// DEVICE in a comment\n{line}\n")
    if wrapper:
        assert missing(tmp_path, tmp_path / "none") == [f"new.cuh: {wrapper}"]
    else:
        with pytest.raises(AssertionError, match="not understood: DEVICE auto"):
            wrappers(tmp_path / "new.cuh")
