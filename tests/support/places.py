"""How a reason names a line of a kernel."""

from pathlib import Path


def place(file: str, text: str) -> str:
    """`while True:` [file.py:3]: the line of a file that begins with a text."""
    lines = Path(file).read_text().splitlines()
    number, line = next((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip().startswith(text))
    return f"`{line}` [{Path(file).name}:{number}]"
