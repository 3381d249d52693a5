"""Names, tiles, problems and tile tables that are refused by name, and text that no terminal and no page obeys."""

from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness import operators
from harness.catalog import own, sources, text, tiles
from harness.catalog.entries import Tile
from reports import build

PROBLEM = operators.get(operators.FIRST).problem
ENTRY = 'block_m = 64, block_n = 64, stages = 1, warps = 4, run = "r"'


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Tile.parse("\u0666\u0664x64-s1-w4"), "its size is '\u0666\u0664x64', write 64x128"),
        (lambda: Tile.parse("64x64-s1-w4-a1-a2"), "tile.extra: got a, a, expected each option once"),
        (lambda: Tile(64, 64, extra=(("a'b", 1),)), 'tile.extra: got "a\'b", expected a name of small letters'),
        (lambda: operators.parse("b\u0664-h16-n4096-d128-bf16-full"), "its batch is 'b\u0664', write b4"),
        (lambda: PROBLEM(1, 1, 1, 64, 64, 64, "fp16", "no"), "problem.causal: got 'no', expected True or False"),
        (lambda: tiles.Selection('a"b', "cuda", "d64-full", Tile(64, 64), 1, "run"), "technique: got 'a\"b', expected"),
        (lambda: own.parse("a" * 5000 + ".cu"), "kernel: got a path of 5003 characters"),
        (lambda: own.parse("a\nb.py:f"), "kernel: got 'a.nb.py:f', expected a path without control characters"),
        (lambda: own.parse("a\x1bb.cu"), "expected a path without control characters; rename it"),
        (lambda: own.parse("a\udce9b.cu"), "expected a path without control characters; rename it"),
    ],
)
def test_a_value_that_nothing_could_read_again_is_refused(made: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made()


def test_no_kernel_is_no_list_of_kernels() -> None:
    for nothing in ([], iter([]), (name for name in ())):
        with pytest.raises(TypeError, match=r"kernels: got .*, expected a function, a name, a file, or some of them"):
            harness.check(nothing)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[a.cuda]\n<<<<<<< ours\n", r"h200.toml: .*line 2"),
        (b"[a.cuda\n", r"h200.toml: .*line 1"),
        (b"[a.cuda]\n# \xff\n", r"h200.toml:2: .*can't decode byte 0xff"),
        (b"a = 1\n", r"h200.toml: a: got 1, expected block_m"),
        (b"[a]\ncuda = 1\n", r"h200.toml: a.cuda: got 1, expected block_m"),
        (b"[a.cuda]\nd64 = 3\n", r"h200.toml: a.cuda.d64: got 3, expected block_m"),
        (b'[a.cuda]\nd64 = { block_m = 0, block_n = 64, tried = 1, run = "r" }\n', r"a.cuda.d64: .*block_m"),
        (f"[a.cuda]\nd64 = {{ {ENTRY} }}\n".encode(), r"a.cuda.d64: got .*tried"),
        (f"[a.cuda]\nd64 = {{ {ENTRY}, tried = true }}\n".encode(), r"tried: got True, expected a positive integer"),
        (f"[a.cuda]\nd64 = {{ {ENTRY}, tried = 1, colour = 2 }}\n".encode(), r"a.cuda.d64: got .*colour"),
    ],
)
def test_a_broken_tile_table_is_named_with_its_line_or_entry(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "h200.toml"
    path.write_bytes(content)
    with pytest.raises(sources.Unreadable, match=said):
        tiles.read(path)


def test_control_characters_are_shown_as_escapes_in_a_terminal_and_on_a_page() -> None:
    hostile = "a\x1b[2J\x9b\u202e\u2066\u200f\ud800\n\tb"
    shown = "a\\x1b[2J\\x9b\\u202e\\u2066\\u200f\\ud800\n\tb"
    assert text.plain(hostile) == shown
    assert build.environment().from_string("{{ reason }}").render(reason=hostile) == shown
