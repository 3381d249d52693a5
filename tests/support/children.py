"""Work in a process of another environment, of which each test process keeps one: Triton reads its variables once, and
takes seconds to import."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from harness.machine import processes

_children: dict[tuple[tuple[str, str], ...], processes.Child] = {}


def call(function: Callable[..., Any], *arguments: Any, environment: Mapping[str, str] | None = None) -> Any:
    """What `function(*arguments)` returns in a process of this environment. It can be pickled: a module's own function.

    Raises RuntimeError with the words of what it raised, or with how the process ended.
    """
    key = tuple(sorted((environment or {}).items()))
    child = _children.get(key) or processes.Child(dict(key))
    _children[key] = child
    try:
        child.begin((function, arguments), math.inf)
        child.connection.poll(None)
        answer = child.answer()
    except BaseException:  # a timeout, or Ctrl-C: it is still at work on what nobody waits for
        del _children[key]
        child.end()
        raise
    if child.connection.closed:
        del _children[key]
    if isinstance(answer, processes.NoAnswer):
        raise RuntimeError(answer.reason)
    return answer
