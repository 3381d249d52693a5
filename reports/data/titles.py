"""A technique's title for people, and the theme that it is listed under."""

from __future__ import annotations

from harness.operators.attention.titles import THEMES

TITLES = {name: title for theme in THEMES.values() for name, title in theme.items()}


def title(technique: str) -> str:
    """XOR swizzle; a name without a title is made readable."""
    return TITLES.get(technique, technique.replace("_", " ").capitalize())


def theme(technique: str) -> str:
    """The theme of a technique; of one without a theme the last."""
    return next((theme for theme, names in THEMES.items() if technique in names), [*THEMES][-1])
