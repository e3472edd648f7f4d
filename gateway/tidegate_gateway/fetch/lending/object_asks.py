"""Requests between gateways of a zone: a range of an object, written as a URL.  Pure.

GET /v1/objects/KEY?from=START&to=END&size=BYTES

KEY is percent-encoded once more, since it holds such parts itself. size is that of the whole
object: the asking gateway knows it from the cluster state, and the lending gateway plans its reads
with it.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from tidegate_storage.objects.keys import parse_segment_key, parse_wal_key

OBJECTS_PATH: Final = "/v1/objects/"
MAX_ASKED_BYTES: Final = 16 << 20


class BadAsk(ValueError):
    """A target that names no range of an object with records."""


class ObjectAsk(NamedTuple):
    """The bytes from start to end of an object that has size_bytes."""

    key: str
    start: int
    end: int
    size_bytes: int

    @property
    def length(self) -> int:
        """Return how many bytes these are."""
        return self.end - self.start


def target_of(ask: ObjectAsk) -> str:
    """Return the target of the request."""
    where = f"from={ask.start}&to={ask.end}&size={ask.size_bytes}"
    return f"{OBJECTS_PATH}{quote(ask.key)}?{where}"


def read_target(target: str) -> ObjectAsk:
    """Inverse of target_of.

    Raises:
      BadAsk: the sentence is for the asking gateway.
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
      BadAsk: it holds none; gateways lend nothing else.
    """
    for parse in (parse_wal_key, parse_segment_key):
        try:
            return parse(key).cluster_id
        except ValueError:
            continue
    raise BadAsk("only WAL objects and segments are lent")
