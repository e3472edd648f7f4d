"""Incremental fetch sessions (KIP-227), in one gateway's memory and lost with it.

A client with a session names only the partitions whose request changed.  The answer has only the
partitions with news.  Sessions only save bytes.  There are limits on the number of sessions and on
the partitions in all of them.  At a limit the gateway ends sessions that were idle for two minutes.
If there are none, the client gets session id 0 and continues with full fetches.  A session that
grows past the limit ends, and its client starts a new one.

Epochs: a fetch with id 0 and epoch 0 asks for a session.  Epoch -1 ends a session.  The fetches of
a session have the epochs 1, 2, ... which wrap to 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import TypeAlias

from tidegate_protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION = 0
_INITIAL_EPOCH = 0
_FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
_MAX_SESSION_ID = 2**31 - 1
_TOPIC_IDS_FROM = 13

WantedKey: TypeAlias = tuple[str | bytes, int]
"""Topic name, or topic id from version 13 on; partition index."""


class SessionProblem(Enum):
    """Why a fetch cannot be read in its session; the client starts a new one."""

    NOT_FOUND = "no such session"
    WRONG_EPOCH = "not the next request of the session"
    OTHER_TOPIC_KEYS = "the session names topics by the other kind of key"


@dataclass(slots=True, eq=False)
class Wanted:
    """One requested partition, and the last answer about it.

    One of name and topic_id is empty, depending on the version of the fetch.
    """

    name: str
    topic_id: bytes
    request: FetchPartition
    high_watermark: int = -1
    log_start: int = -1

    def note(self, data: PartitionData) -> bool:
        """Note an answer about the partition; return whether the client must get it."""
        is_news = bool(
            data.records
            or data.error_code
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start
        )
        # -1 equals no high watermark, so the first answer after an error is always sent.
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start = data.log_start_offset
        return is_news


@dataclass(slots=True, eq=False)
class FetchSession:
    """Partitions in the order of service.  owner: the principal that opened the session."""

    session_id: int
    uses_topic_ids: bool
    epoch: int
    used_at: float
    partitions: OrderedDict[WantedKey, Wanted] = field(
        default_factory=OrderedDict[WantedKey, Wanted]
    )
    owner: str = ""


@dataclass(slots=True)
class FetchContext:
    """The partitions of a fetch, including those that its session remembers.

    session: None for a full fetch. opens: the client asks for a session.  epoch: of the session
    when the fetch began. owner: the principal of the client.
    """

    wanted: Sequence[Wanted]
    session: FetchSession | None = None
    opens: bool = False
    epoch: int = 0
    owner: str = ""


class FetchSessions:
    """At most max_sessions sessions, in the order of their last use.

    Args:
      rng: draws session ids.
      max_partitions: of all sessions together; a partition takes about 500 bytes.
    """

    def __init__(
        self,
        rng: Random,
        *,
        max_sessions: int = 1000,
        max_partitions: int = 500_000,
        min_idle_seconds: float = 120.0,
    ) -> None:
        self._rng = rng
        self._max_sessions = max_sessions
        self._max_partitions = max_partitions
        self._partition_count = 0
        self._min_idle_seconds = min_idle_seconds
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, request: FetchRequest, version: int, now: float, owner: str = ""
    ) -> FetchContext | SessionProblem:
        """Return the partitions that a request asks for.

        now: in seconds, of any monotonic clock.  owner: the principal of the client; other
          principals cannot use the session, since they would see its topic names.
        """
        if request.session_epoch not in (_INITIAL_EPOCH, _FINAL_EPOCH):
            return self._continue(request, version, now, owner)
        known = self._sessions.get(request.session_id)
        if known is not None and known.owner == owner:
            self._end(request.session_id)
        opens = request.session_epoch == _INITIAL_EPOCH
        wanted = [each for _, each in _asked(request, version)]
        return FetchContext(wanted, opens=opens, owner=owner)

    def finish(
        self,
        context: FetchContext,
        answers: Sequence[PartitionData],
        *,
        version: int,
        now: float,
    ) -> tuple[int, list[tuple[Wanted, PartitionData]]] | SessionProblem:
        """Return the session id and the answers to send; answers[i] belongs to wanted[i]."""
        pairs = list(zip(context.wanted, answers, strict=True))
        if context.session is not None:
            return self._finish_incremental(context.session, context.epoch, pairs)
        if not context.opens:
            return NO_SESSION, pairs
        session = self._open(version, len(pairs), now)
        if session is None:
            return NO_SESSION, pairs
        session.owner = context.owner
        for wanted, data in pairs:
            wanted.note(data)
            session.partitions[_key(wanted, version)] = wanted
        self._partition_count += len(session.partitions)
        return session.session_id, pairs

    def unchanged(self, context: FetchContext) -> int | SessionProblem:
        """Return the session id of an answer without news; no session is opened."""
        if context.session is None:
            return NO_SESSION
        if context.session.epoch != context.epoch:
            return SessionProblem.WRONG_EPOCH
        return context.session.session_id

    def _continue(
        self, request: FetchRequest, version: int, now: float, owner: str
    ) -> FetchContext | SessionProblem:
        session = self._sessions.get(request.session_id)
        if session is None or session.owner != owner:
            return SessionProblem.NOT_FOUND
        if session.epoch != request.session_epoch:
            return SessionProblem.WRONG_EPOCH
        if session.uses_topic_ids != (version >= _TOPIC_IDS_FROM):
            return SessionProblem.OTHER_TOPIC_KEYS
        count = len(session.partitions)
        _update(session, request, version)
        growth = len(session.partitions) - count
        self._partition_count += growth
        if growth > 0 and self._partition_count > self._max_partitions:
            self._end(session.session_id)
            return SessionProblem.NOT_FOUND
        if not session.partitions:
            self._end(session.session_id)
            return FetchContext([])
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.used_at = now
        self._sessions.move_to_end(session.session_id)
        return FetchContext(list(session.partitions.values()), session, epoch=session.epoch)

    def _finish_incremental(
        self, session: FetchSession, epoch: int, pairs: Iterable[tuple[Wanted, PartitionData]]
    ) -> tuple[int, list[tuple[Wanted, PartitionData]]] | SessionProblem:
        if session.epoch != epoch:
            return SessionProblem.WRONG_EPOCH
        news: list[tuple[Wanted, PartitionData]] = []
        for wanted, data in pairs:
            if wanted.note(data):
                news.append((wanted, data))
                if data.records:
                    # A partition with records in this answer goes to the end, so that all
                    # partitions get their turn.
                    key = (
                        (wanted.topic_id if session.uses_topic_ids else wanted.name),
                        (wanted.request.partition),
                    )
                    session.partitions.move_to_end(key)
        return session.session_id, news

    def _open(self, version: int, count: int, now: float) -> FetchSession | None:
        while self._is_full(count):
            if not self._evict(now):
                return None
        session_id = self._rng.randint(1, _MAX_SESSION_ID)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, _MAX_SESSION_ID)
        session = FetchSession(session_id, version >= _TOPIC_IDS_FROM, epoch=1, used_at=now)
        self._sessions[session_id] = session
        return session

    def _is_full(self, count: int) -> bool:
        """Return whether there is no room for a session of so many partitions."""
        too_many = self._partition_count + count > self._max_partitions
        return too_many or len(self._sessions) >= self._max_sessions

    def _evict(self, now: float) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.used_at < self._min_idle_seconds:
            return False
        self._end(oldest.session_id)
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)


def _key(wanted: Wanted, version: int) -> WantedKey:
    key = wanted.topic_id if version >= _TOPIC_IDS_FROM else wanted.name
    return key, wanted.request.partition


def _asked(request: FetchRequest, version: int) -> Iterable[tuple[WantedKey, Wanted]]:
    by_id = version >= _TOPIC_IDS_FROM
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            yield (key, partition.partition), Wanted(topic.topic, topic.topic_id, partition)


def _update(session: FetchSession, request: FetchRequest, version: int) -> None:
    """Add and change the partitions that the request names, then remove those it forgets."""
    for key, wanted in _asked(request, version):
        present = session.partitions.setdefault(key, wanted)
        present.request = wanted.request
    for topic in request.forgotten_topics_data:
        topic_key = topic.topic_id if session.uses_topic_ids else topic.topic
        for index in topic.partitions:
            session.partitions.pop((topic_key, index), None)
