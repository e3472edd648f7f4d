"""Fetch sessions (KIP-227): what a client asked for before, so that it sends only changes.  Pure.

A session lasts until the broker stops, also across connections.  An answer of an open session omits
a partition that has no records and no error, and whose bounds have not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from tidegate_protocol.primitives import ZERO_UUID

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1
_FIRST_VERSION_WITH_IDS: Final = 13
_STALE_SECONDS: Final = 120.0

Names = Mapping[bytes, str]
Key = tuple[bytes | str, int]
"""Topic id, or name before version 13; partition."""


@dataclass(slots=True, eq=False)
class Wanted:
    """A partition that is fetched.  topic: None while its id is unknown here.

    high_watermark, log_start: as the last answer of the session showed them.
    """

    topic_id: bytes
    topic: str | None
    asked: FetchPartition
    high_watermark: int = -1
    log_start: int = -1

    @property
    def key(self) -> Key:
        """The key of the partition within a session."""
        name: bytes | str = self.topic_id if self.topic_id != ZERO_UUID else self.topic or ""
        return name, self.asked.partition

    def must_show(self, answer: PartitionData) -> bool:
        """Return whether the session's answer must have the partition; note the shown bounds."""
        bounds = answer.high_watermark, answer.log_start_offset
        is_news = bool(
            answer.records
            or bounds != (self.high_watermark, self.log_start)
            or answer.error_code
            or answer.diverging_epoch is not None
        )
        self.high_watermark, self.log_start = bounds
        if answer.error_code:
            self.high_watermark = -1  # so that the next answer without an error shows it
        return is_news


Result = tuple[Wanted, PartitionData]


@dataclass(slots=True, eq=False)
class Session:
    """One session; partitions whose records were returned go to the end, so that all take turns."""

    session_id: int
    uses_ids: bool
    last_used: float
    epoch: int = 1
    wanted: dict[Key, Wanted] = field(default_factory=dict[Key, Wanted])


class Answer(NamedTuple):
    """The answer to a Fetch."""

    code: ErrorCode
    session_id: int
    results: Sequence[Result]


@dataclass(slots=True, eq=False)
class Context:
    """A Fetch.  error: it fails as a whole.  opens: it begins a session.  session: its session."""

    wanted: list[Wanted]
    error: ErrorCode = ErrorCode.NONE
    opens: bool = False
    session: Session | None = None
    epoch: int = 0


class FetchSessions:
    """The sessions of one life of a broker."""

    def __init__(self, rng: Random, *, max_sessions: int = 1000) -> None:
        self._rng = rng
        self._max_sessions = max_sessions
        self._sessions: dict[int, Session] = {}

    def forget_all(self) -> None:
        """Lose all sessions, as a full cache or a restart does."""
        self._sessions.clear()

    def begin(self, request: FetchRequest, version: int, names: Names, now: float) -> Context:
        """Apply a request to its session; return the partitions that it fetches."""
        asked = _asked(request, names)
        if request.session_epoch in (_INITIAL_EPOCH, _FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            opens = request.session_epoch == _INITIAL_EPOCH
            return Context(list(asked.values()), opens=opens)
        session = self._sessions.get(request.session_id)
        if session is None:
            return Context([], ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return Context([], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != (version >= _FIRST_VERSION_WITH_IDS):
            return Context([], ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        _update(session, asked, request, names)
        if not session.wanted:
            del self._sessions[session.session_id]
            return Context(list(asked.values()))
        session.last_used = now
        session.epoch = _next(session.epoch)
        return Context(list(session.wanted.values()), session=session, epoch=session.epoch)

    def finish(self, context: Context, results: list[Result], version: int, now: float) -> Answer:
        """Return the answer: all results, or the changed partitions of an open session."""
        if context.error:
            return Answer(context.error, NO_SESSION, ())
        session = context.session
        if session is None:
            opened = self._open(results, version, now) if context.opens else NO_SESSION
            return Answer(ErrorCode.NONE, opened, results)
        if session.epoch != context.epoch:  # another request of the session overtook this one
            return Answer(ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.session_id, ())
        shown = [each for each in results if each[0].must_show(each[1])]
        for wanted, answer in shown:
            if answer.records:
                session.wanted[wanted.key] = session.wanted.pop(wanted.key, wanted)
        return Answer(ErrorCode.NONE, session.session_id, shown)

    def _open(self, results: list[Result], version: int, now: float) -> int:
        if len(self._sessions) >= self._max_sessions and not self._evict(now):
            return NO_SESSION
        session_id = self._rng.randint(1, _MAX_EPOCH)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, _MAX_EPOCH)
        session = Session(session_id, version >= _FIRST_VERSION_WITH_IDS, now)
        for wanted, answer in results:
            wanted.high_watermark = answer.high_watermark
            wanted.log_start = answer.log_start_offset
            session.wanted[wanted.key] = wanted
        self._sessions[session_id] = session
        return session_id

    def _evict(self, now: float) -> bool:
        oldest = min(self._sessions.values(), key=_last_used, default=None)
        if oldest is None or now - oldest.last_used <= _STALE_SECONDS:
            return False
        del self._sessions[oldest.session_id]
        return True


def _last_used(session: Session) -> float:
    return session.last_used


def _next(epoch: int) -> int:
    return 1 if epoch == _MAX_EPOCH else epoch + 1


def _asked(request: FetchRequest, names: Names) -> dict[Key, Wanted]:
    wanted = [
        Wanted(topic.topic_id, _name(topic.topic_id, topic.topic, names), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]
    return {each.key: each for each in wanted}


def _name(topic_id: bytes, name: str, names: Names) -> str | None:
    return name if topic_id == ZERO_UUID else names.get(topic_id)


def _update(
    session: Session, asked: dict[Key, Wanted], request: FetchRequest, names: Names
) -> None:
    for key, each in asked.items():
        known = session.wanted.get(key)
        if known is None:
            session.wanted[key] = each
        else:
            known.asked = each.asked
    for topic in request.forgotten_topics_data:
        name: bytes | str = topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic
        for partition in topic.partitions:
            session.wanted.pop((name, partition), None)
    for each in session.wanted.values():
        if each.topic is None:
            each.topic = names.get(each.topic_id)
