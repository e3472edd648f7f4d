"""Reads the state of a script's topics, groups and transactions that a broker shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import describe_producers as dp
from tidegate_protocol.messages import describe_transactions as dt
from tidegate_protocol.messages import fetch as fe
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import offset_fetch as of

from . import steps as st
from .clients import Clients
from .names import Names
from .seen import Seen, flat
from .wire import Caller, Request

_COMMITTED: Final = 1
_LATEST: Final = -1
_EARLIEST: Final = -2
_PREPARED: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_BYTES: Final = 1 << 20
_TOPIC_IDS_SINCE: Final = 13
_PAUSE_SECONDS: Final = 0.005
_PATIENCE_SECONDS: Final = 20.0
_NO_TOPIC_ID: Final = b"\xee" * 16


class Observer:
    """See the module's head.  epochs: by producer id, from the last DescribeTransactions."""

    def __init__(
        self, connection: Caller, clients: Clients, names: Names, fetch_version: int
    ) -> None:
        self._connection: Final = connection
        self._clients: Final = clients
        self._names: Final = names
        self._fetch_version: Final = fetch_version
        self._starts: Final[dict[st.Place, int]] = {}
        self._ends: Final[dict[st.Place, int]] = {}
        self.epochs: Final[dict[int, int]] = {}

    def extent(self, place: st.Place) -> tuple[int, int]:
        """Return the log's start and end, as they were after the last step."""
        start = self._starts.get(place, 0)
        return start, max(self._ends.get(place, 0), start)

    def note_start(self, place: st.Place, deleted: Seen) -> None:
        """Note the log's start from an answer to DeleteRecords."""
        for path, value in deleted.items():
            if path.endswith("low_watermark") and isinstance(value, int) and value >= 0:
                self._starts[place] = value

    def forget_topic(self, topic: int) -> None:
        """Note that a topic was created or deleted."""
        for index in range(st.PARTITIONS):
            self._starts.pop((topic, index), None)
            self._ends.pop((topic, index), None)

    async def has_topic(self, topic: int) -> bool:
        """Return whether the broker serves a topic."""
        answer = await self._connection.call(self._offsets(_LATEST, 0, [topic]))
        return all(row.error_code == E.NONE for row in answer.topics[0].partitions)

    async def is_ongoing(self, name: str) -> bool:
        """Return whether a transaction is open."""
        return "Ongoing" in await self._states([name])

    async def settle(self) -> None:
        """Wait until no transaction is in a prepared state."""
        deadline = trio.current_time() + _PATIENCE_SECONDS
        while await self._states(self._clients.names()) & _PREPARED:
            if trio.current_time() > deadline:
                return
            await trio.sleep(_PAUSE_SECONDS)

    def questions(self, peek: int) -> dict[str, Request]:
        """Return the requests that show the whole state.  peek: see Script."""
        return {
            "uncommitted": self._fetch(0, 0),
            "committed": self._fetch(_COMMITTED, 0),
            "peek": self._fetch(_COMMITTED, peek),
            "end": self._offsets(_LATEST, 0),
            "stable end": self._offsets(_LATEST, _COMMITTED),
            "start": self._offsets(_EARLIEST, 0),
            "producers": self._producers(),
            "transactions": self._transactions(self._clients.names()),
            "offsets": self._committed(is_stable=False),
            "stable offsets": self._committed(is_stable=True),
            "all offsets": self._all_committed(),
        }

    async def look(self, asked: Mapping[str, Request]) -> Seen:
        """Send the requests; return the parts of their answers that are compared."""
        answers = await self._connection.call_all(list(asked.values()))
        seen: Seen = {}
        for what, answer in zip(asked, answers, strict=True):
            seen |= flat(what, answer, self._names)
        for each in answers[list(asked).index("transactions")].transaction_states:
            self.epochs[each.producer_id] = each.producer_epoch
        self._note_extents(answers[0])
        return seen

    def _note_extents(self, fetched: Any) -> None:
        for row in fetched.responses:
            topic = self._clients.topic_number(row.topic, row.topic_id)
            for each in row.partitions:
                if each.error_code == E.NONE:
                    self._ends[topic, each.partition_index] = each.high_watermark

    async def _states(self, names: Sequence[str]) -> set[str]:
        answer = await self._connection.call(self._transactions(names))
        return {each.transaction_state for each in answer.transaction_states}

    def _fetch(self, isolation: int, hundredths: int) -> Request:
        topics: list[fe.FetchTopic] = []
        for topic in range(st.TOPICS):
            rows: list[fe.FetchPartition] = []
            for index in range(st.PARTITIONS):
                start, end = self.extent((topic, index))
                offset = start + (end - start) * hundredths // 100
                rows.append(
                    fe.FetchPartition(index, fetch_offset=offset, partition_max_bytes=_BYTES)
                )
            by_id = self._fetch_version >= _TOPIC_IDS_SINCE
            topic_id = self._clients.topic_ids.get(topic, _NO_TOPIC_ID) if by_id else bytes(16)
            topics.append(fe.FetchTopic(self._clients.topic(topic), topic_id, rows))
        body = fe.FetchRequest(
            max_bytes=8 * _BYTES, isolation_level=isolation, session_epoch=-1, topics=topics
        )
        return Request("Fetch", self._fetch_version, body)

    def _offsets(
        self, timestamp: int, isolation: int, topics: Sequence[int] = range(st.TOPICS)
    ) -> Request:
        rows = [
            lo.ListOffsetsTopic(
                self._clients.topic(topic),
                [lo.ListOffsetsPartition(each, -1, timestamp) for each in range(st.PARTITIONS)],
            )
            for topic in topics
        ]
        return Request("ListOffsets", 5, lo.ListOffsetsRequest(-1, isolation, rows))

    def _producers(self) -> Request:
        rows = [
            dp.TopicRequest(self._clients.topic(topic), list(range(st.PARTITIONS)))
            for topic in range(st.TOPICS)
        ]
        return Request("DescribeProducers", 0, dp.DescribeProducersRequest(rows))

    def _transactions(self, names: Sequence[str]) -> Request:
        return Request("DescribeTransactions", 0, dt.DescribeTransactionsRequest(list(names)))

    def _all_committed(self) -> Request:
        groups = [
            of.OffsetFetchRequestGroup(each.name, topics=None) for each in self._clients.groups
        ]
        return Request("OffsetFetch", 9, of.OffsetFetchRequest(groups=groups, require_stable=True))

    def _committed(self, *, is_stable: bool) -> Request:
        topics = [
            of.OffsetFetchRequestTopics(
                self._clients.topic(topic), partition_indexes=list(range(st.PARTITIONS))
            )
            for topic in range(st.TOPICS)
        ]
        groups = [
            of.OffsetFetchRequestGroup(each.name, topics=list(topics))
            for each in self._clients.groups
        ]
        body = of.OffsetFetchRequest(groups=groups, require_stable=is_stable)
        return Request("OffsetFetch", 8, body)
