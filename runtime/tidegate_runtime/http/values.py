"""The values of server and client: a whole request and a whole answer, with their bodies."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

TEXT: Final = "text/plain; charset=utf-8"
BINARY: Final = "application/octet-stream"
JSON: Final = "application/json"

Headers = tuple[tuple[str, str], ...]
"""Pairs of name and value; names that were received are in lower case.  The characters of a value
are bytes, as in Latin-1, whatever these mean.
"""


class Standing(Enum):
    """A client's standing, as its request shows it.

    STRANGER: nothing, so the request is refused.  It has no slot, and its body is not read.
    ANYONE: nothing, but the page is for everybody, such as health; answered without a slot.
    GUEST: this server asks for no login.  The request has a slot while it is answered.
    KNOWN: the client is authenticated.  Its connection keeps a slot.
    """

    STRANGER = auto()
    ANYONE = auto()
    GUEST = auto()
    KNOWN = auto()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`target` is the sent text: a path and perhaps a query, still percent-encoded."""

    method: str
    target: str
    headers: Headers = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return find_header(self.headers, name)


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`headers` do not include the type and length of the body.

    A server calls `on_sent` once, after the body was sent or failed to be.
    """

    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: Headers = ()
    on_sent: Callable[[], None] = field(default=_nothing, compare=False, repr=False)

    def header(self, name: str) -> str | None:
        return find_header(self.headers, name)


def find_header(headers: Headers, name: str) -> str | None:
    """Return the value of the first header of that name, whatever its case."""
    wanted = name.lower()
    return next((value for each, value in headers if each.lower() == wanted), None)
