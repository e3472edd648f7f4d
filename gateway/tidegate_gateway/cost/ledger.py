"""Counts this gateway's requests to its object store, by the topic or client that caused them.

A request is booked for the payer of the task that sends it: the topics and clients whose bytes it
carries (`paid_by`), or the client whose fetch needs it (`reading_for`).  Many topics and clients
share a WAL object, and each pays for its share of the bytes.  This takes one addition for each
object and topic, and no work for each record.  If the payer of a read is unknown, the topic in the
object's key pays.  If the key has no topic, OTHERS pays.

Only reads and writes of records are split by topic and client.  Other requests belong to the
cluster: backups of the log, lists, deletions, and the log itself if it is in an object store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tidegate_storage.objects.cost_sums import (
    OTHERS,
    PARTS,
    SEGMENTS,
    WAL,
    CostSums,
    KindBook,
    LogRequests,
    Use,
    kind_of,
    whole_parts,
)
from tidegate_storage.objects.keys import parse_segment_key
from tidegate_storage.stores.counting_store import Request, RequestSums

MAX_NAMES: Final = 1000
"""Topics, and clients, that have figures of their own in one interval."""
MAX_NAME: Final = 256
LINKS: Final = "_links"
"""Pays for mirrored batches, like a client."""
_PUTS, _PUT_BYTES, _GETS, _GET_BYTES = range(4)
_COLUMNS: Final = (("puts", PARTS), ("put_bytes", 1), ("gets", PARTS), ("get_bytes", 1))

Key: TypeAlias = Any
"""A topic id, a client id, or OTHERS."""


def _no_totals() -> list[int]:
    return [0, 0, 0, 0]


@dataclass(slots=True, eq=False)
class Payer:
    """The weights by which topics and clients share the cost of some requests.

    topics: by topic id.  clients: by client id.  amounts: by column, not yet split.  ledger: the
    ledger of these amounts; None before the first request.
    """

    topics: Mapping[bytes, int]
    clients: Mapping[str, int]
    amounts: list[int] = field(default_factory=_no_totals)
    ledger: CostLedger | None = None


_payer: ContextVar[Payer | None] = ContextVar("payer", default=None)
_reader: ContextVar[str] = ContextVar("reader", default=OTHERS)


@contextmanager
def paid_by(topics: Mapping[bytes, int], clients: Mapping[str, int]) -> Generator[None]:
    """Book the requests of this task for these topics and clients."""
    payer = Payer(topics, clients)
    token = _payer.set(payer)
    try:
        yield
    finally:
        _payer.reset(token)
        if payer.ledger is not None:
            payer.ledger.settle(payer)


def reading_for(client_id: str) -> None:
    """Book this task's reads for a client until the next call."""
    _reader.set(client_id)


def who_reads() -> str:
    """Return the client that this task reads for."""
    return _reader.get()


@contextmanager
def read_of(topics: Mapping[bytes, int]) -> Generator[None]:
    """Book the reads of this task for these topics, and for the client of reading_for()."""
    with paid_by(topics, {_reader.get(): 1}):
        yield


class _Table:
    """Shares by key, for at most MAX_NAMES keys; OTHERS has the shares of further keys.

    name_of: returns the name of a key.  It is called once for each key, since the topic may be
    deleted later.
    """

    def __init__(self, name_of: Callable[[Key], str]) -> None:
        self._name_of = name_of
        self._rows: dict[Key, list[float]] = {}
        self._names: dict[Key, str] = {}

    def add(self, weights: Mapping[Any, int], amounts: Sequence[int]) -> None:
        """Split amounts, by column."""
        rows, whole = self._rows, sum(weights.values())
        if not whole:
            weights, whole = {OTHERS: 1}, 1
        puts, put_bytes, gets, get_bytes = [each / whole for each in amounts]
        is_write = not (gets or get_bytes)
        for key, weight in weights.items():
            row = rows.get(key) or self._row(key)
            row[_PUTS] += weight * puts
            row[_PUT_BYTES] += weight * put_bytes
            if is_write:
                continue
            row[_GETS] += weight * gets
            row[_GET_BYTES] += weight * get_bytes

    def _row(self, key: Key) -> list[float]:
        if isinstance(key, str):
            key = key[:MAX_NAME]  # a client id may have 32 KiB
        if key not in self._rows:
            key = key if len(self._rows) < MAX_NAMES else OTHERS
            self._names[key] = OTHERS if key == OTHERS else self._name_of(key)
        return self._rows.setdefault(key, [0.0, 0.0, 0.0, 0.0])

    def uses(self, totals: Sequence[int]) -> dict[str, Use]:
        """Return the shares rounded to whole numbers whose sums are the totals."""
        by_name: dict[str, list[float]] = {}
        for key, row in self._rows.items():
            shares = by_name.setdefault(self._names[key], [0.0, 0.0, 0.0, 0.0])
            for at, each in enumerate(row):
                shares[at] += each
        found = {name: Use() for name in by_name}
        for at, (column, scale) in enumerate(_COLUMNS):
            parts = {name: row[at] * scale for name, row in by_name.items()}
            for name, count in whole_parts(parts, totals[at] * scale).items():
                setattr(found[name], column, count)
        return found


@dataclass(slots=True)
class _Open:
    """The sums of the interval that has not ended."""

    begin_ms: int
    topics: _Table
    clients: _Table
    batches: int = 0
    asked: KindBook = field(default_factory=KindBook)
    totals: list[int] = field(default_factory=_no_totals)
    crossed: Counter[str] = field(default_factory=Counter[str])
    unknown: Counter[str] = field(default_factory=Counter[str])


class CostLedger:
    """See the module's head; a RequestBook.

    name_of: returns the name of a topic by its id; None if the topic is deleted.  log_requests:
    returns the requests that the metadata log has made so far; None if the log does not count them.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        name_of: Callable[[bytes], str | None],
        log_requests: Callable[[], RequestSums | None] = lambda: None,
    ) -> None:
        self._now_ms = now_ms
        self._name_of = name_of
        self._log = LogRequests(log_requests)
        self.inlined: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Returns how many objects went into the metadata log so far, and their bytes."""
        self._inlined_before = (0, 0)
        self._owing: dict[Payer, None] = {}  # ordered, so that the sums are repeatable
        self._open = self._opened(now_ms())

    # -- what the store tells ---------------------------------------------------------------------

    def asked(self, request: Request, key: str, count: int = 1) -> None:
        self._open.asked.asked(request, key, count)
        kind = kind_of(key)
        if request is Request.PUT and kind == WAL:
            self._split(key, _PUTS, count)
        elif request is Request.GET and kind in (WAL, SEGMENTS):
            self._split(key, _GETS, count)

    def stored(self, key: str, size_bytes: int) -> None:
        self._open.asked.stored(key, size_bytes)
        if kind_of(key) == WAL:
            self._split(key, _PUT_BYTES, size_bytes)

    def got(self, key: str, size_bytes: int) -> None:
        self._open.asked.got(key, size_bytes)
        if kind_of(key) in (WAL, SEGMENTS):
            self._split(key, _GET_BYTES, size_bytes)

    def _split(self, key: str, column: int, amount: int) -> None:
        self._open.totals[column] += amount
        payer = _payer.get()
        if payer is None:
            amounts = _no_totals()
            amounts[column] = amount
            self._open.topics.add(_topic_in(key), amounts)
            self._open.clients.add({}, amounts)
        else:
            payer.amounts[column] += amount
            payer.ledger = self
            self._owing[payer] = None

    def settle(self, payer: Payer) -> None:
        """Split the amounts of a payer."""
        self._owing.pop(payer, None)
        self._open.topics.add(payer.topics, payer.amounts)
        self._open.clients.add(payer.clients, payer.amounts)
        payer.amounts = _no_totals()

    def _named(self, topic_id: bytes) -> str:
        return self._name_of(topic_id) or OTHERS

    def _opened(self, begin_ms: int) -> _Open:
        return _Open(begin_ms, _Table(self._named), _Table(str))

    # -- what others tell -------------------------------------------------------------------------

    def wrote_batches(self, count: int) -> None:
        """Book the batches of a WAL object."""
        self._open.batches += count

    def crossed(self, client_id: str, crossed_bytes: int, unknown_bytes: int) -> None:
        """Book bytes of a client that crossed zones, or that may have crossed zones."""
        for counts, size_bytes in (
            (self._open.crossed, crossed_bytes),
            (self._open.unknown, unknown_bytes),
        ):
            if size_bytes:
                name = client_id[:MAX_NAME]
                is_full = name not in counts and len(counts) >= MAX_NAMES
                counts[OTHERS if is_full else name] += size_bytes

    # -- the sums ---------------------------------------------------------------------------------

    def sums(self) -> CostSums:
        """Return the sums since the last take(), whose interval continues."""
        return self._closed()

    def take(self) -> CostSums:
        """End the interval: return its sums, and begin the next one."""
        taken = self._closed()
        self._inlined_before = self.inlined()
        self._open = self._opened(taken.end_ms)
        return taken

    def _closed(self) -> CostSums:
        for payer in tuple(self._owing):
            self.settle(payer)
        open_ = self._open
        self._log.book(open_.asked)
        inlined_objects, inlined_bytes = self.inlined()
        clients = open_.clients.uses(open_.totals)
        for name, size_bytes in open_.crossed.items():
            clients.setdefault(name, Use()).crossed_bytes += size_bytes
        for name, size_bytes in open_.unknown.items():
            clients.setdefault(name, Use()).unknown_bytes += size_bytes
        return CostSums(
            begin_ms=open_.begin_ms,
            end_ms=max(self._now_ms(), open_.begin_ms),
            requests=dict(open_.asked.requests),
            stored_bytes=dict(open_.asked.stored_bytes),
            got_bytes=dict(open_.asked.got_bytes),
            batches=open_.batches,
            inlined_objects=inlined_objects - self._inlined_before[0],
            inlined_bytes=inlined_bytes - self._inlined_before[1],
            topics=open_.topics.uses(open_.totals),
            clients=clients,
        )


def _topic_in(key: str) -> dict[bytes, int]:
    """Return the weights of an object's key: the topic in it; {} for a WAL object."""
    try:
        return {parse_segment_key(key).topic_id: 1}
    except ValueError:
        return {}


def weights_of(pairs: Iterable[tuple[bytes, int]]) -> dict[bytes, int]:
    """Return the sums of bytes by topic id."""
    weights: dict[bytes, int] = {}
    for topic_id, size_bytes in pairs:
        weights[topic_id] = weights.get(topic_id, 0) + size_bytes
    return weights
