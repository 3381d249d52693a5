"""Every heading of a rendered page gets a link to itself."""

import re

HEADING = re.compile(
    r'(?P<around><(?:section|div)\b[^>]* id="(?P<outer>[^"]+)"[^>]*>\s*)?'
    r"<(?P<tag>h[23])(?P<rest>[^>]*)>(?P<text>.*?)</(?P=tag)>",
    re.DOTALL,
)


def anchored(page: str) -> str:
    """`page` with a link in each h2, and in each h3 that has an id, to its id: its own, that of the section which it
    opens, or else its words. A heading with numbers from rows needs an id of its own: a link must outlive them."""
    taken = set(re.findall(r' id="([^"]+)"', page))

    def linked(found: re.Match[str]) -> str:
        rest, own = found["rest"], re.search(r' id="([^"]+)"', found["rest"])
        name = own[1] if own else found["outer"]
        if name is None:
            if found["tag"] == "h3":
                return found[0]
            name = _slug(found["text"], taken)
            taken.add(name)
            rest = f' id="{name}"{rest}'
        link = f'<a class="anchor" href="#{name}" aria-label="link to this heading">#</a>'
        return f"{found['around'] or ''}<{found['tag']}{rest}>{link}{found['text']}</{found['tag']}>"

    return HEADING.sub(linked, page)


def _slug(text: str, taken: set[str]) -> str:
    """the-rungs-in-order, with a number where another heading has the same words."""
    words = "-".join(re.findall(r"[a-z0-9]+", re.sub(r"<[^>]+>|&[#\w]+;", "", text).lower())) or "heading"
    return next(name for name in (words, *(f"{words}-{number}" for number in range(2, 999))) if name not in taken)
