"""Text from strangers, such as names and reasons of rows and kernels, for a terminal or a page. Standard library
only."""

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Control characters, marks that change direction and halves of UTF-16 pairs are written out, such as \\x1b."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
