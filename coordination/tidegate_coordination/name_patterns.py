"""Patterns of names, by RE2: of transactional ids as in Kafka (KIP-1152), and of topics.

RE2's time grows with the length of the name times the size of the compiled pattern: 32,000
characters and ten times `(a?b?){900}` take thirteen seconds.  So the size is bounded, and the
caller runs long matches outside of the event loop.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import re2

MAX_PROGRAM: Final = 5_000
"""RE2's instructions: 0.1 s for the longest transactional id.  `.*` has 12, and `\\pL+` 1,201."""
LONG_STEPS: Final = 1_000_000
"""The most steps of one match: they take about a millisecond."""
_RE2: Any = re2  # RE2 has no type hints


class _Compiled(Protocol):
    programsize: int

    def fullmatch(self, text: str) -> object: ...


class BadPattern(Exception):
    """The pattern is no regular expression, or is too large.  Refuse the pattern."""


class NamePattern:
    """A pattern that the whole name must match; an empty one matches all.

    Raises:
      BadPattern: see there.
    """

    def __init__(self, pattern: str | None) -> None:
        self._compiled: _Compiled | None = None
        if pattern:
            self._compiled = _compiled(pattern)

    def steps(self, name: str) -> int:
        """Return how long the match of a name takes at most; see LONG_STEPS."""
        return len(name) * self._compiled.programsize if self._compiled is not None else 0

    def matches(self, name: str) -> bool:
        """Return whether a name matches."""
        return self._compiled is None or bool(self._compiled.fullmatch(name))


def _text_of(error: Exception) -> str:
    """Return the text of RE2's error, which may be bytes."""
    text = error.args[0] if error.args else ""
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _compiled(pattern: str) -> _Compiled:
    options = _RE2.Options()
    options.log_errors = False
    try:
        compiled: _Compiled = _RE2.compile(pattern, options)
    except _RE2.error as error:
        raise BadPattern(_text_of(error)) from error
    if compiled.programsize > MAX_PROGRAM:
        raise BadPattern(f"{compiled.programsize} instructions; at most {MAX_PROGRAM}")
    return compiled
