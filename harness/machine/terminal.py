"""A terminal that obeys no text it is given: names and reasons may come from strangers' rows and kernels."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from harness.catalog.text import plain


class Plain(Console):
    """A console that prints what it is given: no control character, markup or name of an emoji (my.py:x:) is obeyed,
    only the colours that it makes itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)
