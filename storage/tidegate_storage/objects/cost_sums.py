"""Sums of the requests of gateways and pipelines to the object store.  Pure.

Requests of single topics and clients are in thousandths of a request, since many share one.  The
sum over topics equals a thousand times the requests that were split, exactly; so does the sum over
clients.
"""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import floor
from typing import Any, Final, TypeVar

import msgspec

from ..stores.counting_store import Request, RequestSums

PARTS: Final = 1000
"""Parts of a request in a Use."""
OTHERS: Final = "_other"
"""Stands for all names beyond the limit, and for readers that are not known."""
PIPELINE: Final = -1
"""Stands for the node id in the sums of a pipeline's driver."""
WAL: Final = "wal"
SEGMENTS: Final = "segments"
_KINDS: Final = frozenset({WAL, SEGMENTS, "backup", "costs"})
_KIND_AT: Final = 2  # in a key, see keys.py
_VERSION: Final = 1
_MAX_BYTES: Final = 64 << 20

Key = TypeVar("Key")


class BadSums(Exception):
    """The bytes are no sums that this release can read."""


class KindBook:
    """A book of requests and bytes, by their purpose."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.requests: Counter[str] = Counter()
        self.stored_bytes: Counter[str] = Counter()
        self.got_bytes: Counter[str] = Counter()

    def asked(self, request: Request, key: str, count: int = 1) -> None:
        self.requests[f"{request.value} {kind_of(key)}"] += count

    def stored(self, key: str, size_bytes: int) -> None:
        self.stored_bytes[kind_of(key)] += size_bytes

    def got(self, key: str, size_bytes: int) -> None:
        self.got_bytes[kind_of(key)] += size_bytes


class LogRequests:
    """Books the requests of the metadata log since the last time.

    After a move of the log this includes the last requests of the old log.

    sums: returns the requests that the log made so far; None if it counts none.
    """

    def __init__(self, sums: Callable[[], RequestSums | None]) -> None:
        self._sums = sums
        self._log: RequestSums | None = None
        self._booked: Counter[str] = Counter()

    def book(self, book: KindBook) -> None:
        """Book these requests now."""
        log = self._sums()
        if log is not self._log:
            self._book_rest(book)
            self._log, self._booked = log, Counter()
        self._book_rest(book)

    def _book_rest(self, book: KindBook) -> None:
        log = self._log
        if log is None:
            return
        now = Counter({f"{each.value} log": count for each, count in log.requests.items()})
        now["stored"], now["got"] = log.stored_bytes, log.got_bytes
        new = now - self._booked
        self._booked = now
        book.stored_bytes["log"] += new.pop("stored", 0)
        book.got_bytes["log"] += new.pop("got", 0)
        book.requests += new


@lru_cache(maxsize=16)  # each request is booked a few times
def kind_of(key: str) -> str:
    """Return the kind of an object by its key or prefix."""
    parts = key.split("/", _KIND_AT + 1)
    kind = parts[_KIND_AT] if len(parts) > _KIND_AT else ""
    return kind if kind in _KINDS else "other"


class Use(msgspec.Struct):
    """The use of one topic or client.

    puts, gets: numbers of requests, in PARTS of a request. put_bytes: bytes in WAL objects.
    get_bytes: bytes of records.
    crossed_bytes: bytes that a client sent and got across zones;
    unknown_bytes: bytes of clients whose zone is unknown.
    """

    puts: int = 0
    put_bytes: int = 0
    gets: int = 0
    get_bytes: int = 0
    crossed_bytes: int = 0
    unknown_bytes: int = 0

    def add(self, other: Use) -> None:
        """Add another use's figures."""
        for name in FIELDS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


FIELDS: Final = Use.__struct_fields__


def _no_counts() -> dict[str, int]:
    return {}


def _no_uses() -> dict[str, Use]:
    return {}


def _no_groups() -> dict[str, list[str]]:
    return {}


class CostSums(msgspec.Struct, kw_only=True):
    """The sums of a span of time; of one gateway or pipeline, or of several.

    node_id, linger_ms, put_budget: the gateway's, and its settings; for several gateways, those of
    the newest sums. A pipeline has PIPELINE for its node id, and gives only the requests and the
    bytes. put_budget is 0 where requests cost nothing.
    begin_ms, end_ms: since 1970.
    requests: by kind and what they were for, as "put wal".
    stored_bytes, got_bytes: by what they were for.  batches: in the WAL objects.
    inlined_objects, inlined_bytes: of WAL objects that went into the metadata log; none cost a PUT.
    topics, clients: see the module's head.  groups: client id -> groups in which it was seen.
    kept_bytes: of topics, at the end of the span; kept_byte_hours: over it.  Only one gateway of a
    cluster reports both.
    """

    version: int = _VERSION
    node_id: int = 0
    linger_ms: int = 0
    put_budget: float = 0.0
    begin_ms: int = 0
    end_ms: int = 0
    requests: dict[str, int] = msgspec.field(default_factory=_no_counts)
    stored_bytes: dict[str, int] = msgspec.field(default_factory=_no_counts)
    got_bytes: dict[str, int] = msgspec.field(default_factory=_no_counts)
    batches: int = 0
    inlined_objects: int = 0
    inlined_bytes: int = 0
    topics: dict[str, Use] = msgspec.field(default_factory=_no_uses)
    clients: dict[str, Use] = msgspec.field(default_factory=_no_uses)
    groups: dict[str, list[str]] = msgspec.field(default_factory=_no_groups)
    kept_bytes: dict[str, int] = msgspec.field(default_factory=_no_counts)
    kept_byte_hours: dict[str, int] = msgspec.field(default_factory=_no_counts)

    def count(self, kind: str) -> int:
        """Return the requests of a kind, such as "put"."""
        return sum(each for name, each in self.requests.items() if name.startswith(f"{kind} "))

    @property
    def crossed_bytes(self) -> int:
        """Bytes between clients and gateways of different zones."""
        return sum(each.crossed_bytes for each in self.clients.values())

    def by_group(self) -> dict[str, Use]:
        """Return the use by the clients of each group; OTHERS: by clients of no group, or of
        several.
        """
        found: dict[str, Use] = {}
        for client_id, use in self.clients.items():
            groups = self.groups.get(client_id, ())
            found.setdefault(groups[0] if len(groups) == 1 else OTHERS, Use()).add(use)
        return found


def merged(all_sums: Iterable[CostSums]) -> CostSums:
    """Return the sums over several spans and gateways."""
    whole = CostSums()
    newest: dict[str, int] = {}
    for each in all_sums:
        whole.begin_ms = min(whole.begin_ms or each.begin_ms, each.begin_ms)
        for mine, others in (
            (whole.requests, each.requests),
            (whole.stored_bytes, each.stored_bytes),
            (whole.got_bytes, each.got_bytes),
            (whole.kept_byte_hours, each.kept_byte_hours),
        ):
            for name, count in others.items():
                mine[name] = mine.get(name, 0) + count
        for uses, more in ((whole.topics, each.topics), (whole.clients, each.clients)):
            for name, use in more.items():
                uses.setdefault(name, Use()).add(use)
        for client_id, groups in each.groups.items():
            known = whole.groups.setdefault(client_id, [])
            known += [group for group in groups if group not in known]
        if each.kept_bytes and each.end_ms >= newest.get("ms", 0):
            newest["ms"], whole.kept_bytes = each.end_ms, dict(each.kept_bytes)
        if each.node_id != PIPELINE and each.end_ms >= newest.get("settings", 0):
            newest["settings"] = each.end_ms
            whole.node_id, whole.linger_ms = each.node_id, each.linger_ms
            whole.put_budget = each.put_budget
        whole.batches += each.batches
        whole.inlined_objects += each.inlined_objects
        whole.inlined_bytes += each.inlined_bytes
        whole.end_ms = max(whole.end_ms, each.end_ms)
    return whole


def encode(sums: CostSums) -> bytes:
    """Return an object's body."""
    return zlib.compress(msgspec.json.encode(sums))


def decode(body: bytes) -> CostSums:
    """Inverse of encode.

    Raises:
      BadSums: see there.
    """
    try:
        text = zlib.decompressobj().decompress(body, _MAX_BYTES)
        found = msgspec.json.decode(text, type=CostSums)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadSums(str(error)) from error
    if found.version != _VERSION:
        raise BadSums(f"they are of version {found.version}; this release reads {_VERSION}")
    return found


def hour_of(seconds: float) -> int:
    """Return the hour of a time since 1970, as 2026112620 in UTC."""
    return int(time.strftime("%Y%m%d%H", time.gmtime(seconds)))


def whole_parts(parts: Mapping[Key, float], total: int) -> dict[Key, int]:
    """Round parts of a total to whole numbers whose sum is the total (largest remainder).

    parts: their sum is the total, but for errors of floating point.
    """
    rounded = {key: floor(part) for key, part in parts.items()}
    left = total - sum(rounded.values())
    if 0 <= left <= len(parts):
        for key in sorted(parts, key=lambda key: rounded[key] - parts[key])[:left]:
            rounded[key] += 1
    elif parts:  # very large numbers, whose errors are above 1
        rounded[max(parts, key=lambda key: parts[key])] += left
    return rounded


def as_builtins(sums: CostSums) -> dict[str, Any]:
    """Return the sums for JSON."""
    found: dict[str, Any] = msgspec.to_builtins(sums)
    return found
