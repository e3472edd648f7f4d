"""A text that must not be shown: a password, a token, a key, a URL that may hold one.

A str gets into log lines, tracebacks and pages by accident: through the repr of the dataclass that
holds it, an f-string, an encoder.  A Secret shows HIDDEN there, and the type checker finds code
that uses it as a text.  Only reveal() and reveal_bytes() return the value: call them where the
value is passed to the code that needs it, and do not store the answer.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

HIDDEN: Final = "[hidden]"
"""The text that people see instead of a secret."""


class Secret:
    """See the module's head.  A Secret is true if there is a value."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text: Final = text

    def reveal(self) -> str:
        """Return the value."""
        return self._text

    def reveal_bytes(self) -> bytes:
        """Return the value as bytes, even if it is no UTF-8."""
        return _bytes(self._text)

    def matches(self, given: str | bytes) -> bool:
        """Return whether a client gave this value; the time does not tell how much was right."""
        as_bytes = given if isinstance(given, bytes) else _bytes(given)
        return compare_digest(as_bytes, self.reveal_bytes())

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return self.matches(other._text) if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return HIDDEN


def _bytes(text: str) -> bytes:
    # A variable of the environment may hold bytes that are no UTF-8.
    return text.encode(errors="surrogateescape")
