"""Requests between gateways of a zone: a range of an object, written as a URL.  Pure.

GET /v1/objects/KEY?from=START&to=END&size=BYTES

KEY has percent-encoded parts, and is encoded once more here.  size is the size of the whole object.
The asking gateway knows it from the cluster state, and the lending gateway uses it to plan its
reads.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from tidegate_storage.objects.keys import parse_segment_key, parse_wal_key

OBJECTS_PATH: Final = "/v1/objects/"
MAX_ASKED_BYTES: Final = 16 << 20


class BadAsk(ValueError):
    """A URL that names no range of an object with records."""


class ObjectAsk(NamedTuple):
    """The bytes from start to end of an object that has size_bytes."""

    key: str
    start: int
    end: int
    size_bytes: int

    @property
    def length(self) -> int:
        """Return the length of the range."""
        return self.end - self.start


def target_of(ask: ObjectAsk) -> str:
    """Return the URL of a request, without scheme and host."""
    where = f"from={ask.start}&to={ask.end}&size={ask.size_bytes}"
    return f"{OBJECTS_PATH}{quote(ask.key)}?{where}"


def read_target(target: str) -> ObjectAsk:
    """Return the range of such a URL; the inverse of target_of.

    Raises:
      BadAsk: its text is for the asking gateway.
    """
    path, _, query = target.partition("?")
    found = dict(parse_qsl(query))
    try:
        start, end, size_bytes = (int(found[name]) for name in ("from", "to", "size"))
    except (KeyError, ValueError):
        raise BadAsk("a range has from=, to= and size=, in bytes") from None
    ask = ObjectAsk(unquote(path.removeprefix(OBJECTS_PATH)), start, end, size_bytes)
    if not 0 <= start < end <= size_bytes or ask.length > MAX_ASKED_BYTES:
        raise BadAsk(f"a range lies within its object and has up to {MAX_ASKED_BYTES} bytes")
    return ask


def cluster_of(key: str) -> str:
    """Return the cluster whose records an object holds.

    Raises:
      BadAsk: the object holds no records; gateways lend no other objects.
    """
    for parse in (parse_wal_key, parse_segment_key):
        try:
            return parse(key).cluster_id
        except ValueError:
            continue
    raise BadAsk("only WAL objects and segments are lent")
