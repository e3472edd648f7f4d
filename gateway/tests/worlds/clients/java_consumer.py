"""A consumer that fetches as Java's does, for worlds in virtual time.

It has one fetch in flight, which asks for 1 MiB of each partition that has no fetched records left.
Each poll hands out 500 KiB, partition after partition.  So a fetch asks for one or a few
partitions, whereas a fetch of librdkafka asks for all.
"""

from __future__ import annotations

from collections import OrderedDict

import trio

from tests.worlds.fetch_world import World
from tidegate_gateway.network.call import Call, Peer
from tidegate_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tidegate_protocol.primitives import Buffer
from tidegate_protocol.records import walk

MAX_BYTES = 50 << 20
PARTITION_BYTES = 1 << 20
POLL_BYTES = 500 << 10
VERSION = 12


class JavaConsumer:
    """Reads a topic from its start to its end.  fetches: how many fetches it needed."""

    def __init__(self, world: World, topic: str, bytes_per_second: float) -> None:
        self.fetches = 0
        self._world = world
        self._topic = topic
        self._bytes_per_second = bytes_per_second
        count = len(world.state.topics.by_name[topic].partition_numbers)
        self._ends = [world.partition(topic, index).next_offset for index in range(count)]
        self._offsets = [0] * count
        # Partition -> bytes that are not yet handed out, and the offset after them.
        self._fetched: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._session_id = self._epoch = 0
        self._in_session: set[int] = set()
        self._call = Call(VERSION, "java", Peer("localhost", 1, "PLAINTEXT"))
        self._is_fetching = False
        self._news = trio.Event()

    async def run(self) -> None:
        """Read the topic to its end."""
        async with trio.open_nursery() as nursery:
            while self._offsets != self._ends:
                wanted = self._wanted()
                if wanted and not self._is_fetching:
                    self._is_fetching, self._news = True, trio.Event()
                    nursery.start_soon(self._fetch, wanted)
                    await trio.lowlevel.checkpoint()
                if self._fetched:
                    await trio.sleep(self._poll() / self._bytes_per_second)
                else:
                    await self._news.wait()

    def _wanted(self) -> list[int]:
        return [
            index
            for index, offset in enumerate(self._offsets)
            if offset < self._ends[index] and index not in self._fetched
        ]

    def _poll(self) -> int:
        """Hand out records; return their bytes."""
        left = POLL_BYTES
        while left and self._fetched:
            index, (size, next_offset) = self._fetched.popitem(last=False)
            taken = min(left, size)
            left -= taken
            if taken < size:
                self._fetched[index] = size - taken, next_offset
                self._fetched.move_to_end(index, last=False)
            else:
                self._offsets[index] = next_offset
        return POLL_BYTES - left

    async def _fetch(self, wanted: list[int]) -> None:
        response = await self._world.fetcher.handle(self._call, self._request(wanted))
        assert response.error_code == 0
        self._session_id = response.session_id
        self._epoch = self._epoch + 1 if self._session_id else 0
        self._in_session = set(wanted)
        for topic in response.responses:
            self._take(topic)
        self.fetches += 1
        self._is_fetching = False
        self._news.set()

    def _request(self, wanted: list[int]) -> FetchRequest:
        forgotten = sorted(self._in_session.difference(wanted))
        partitions = [
            FetchPartition(index, fetch_offset=self._offsets[index], partition_max_bytes=1 << 20)
            for index in wanted
        ]
        return FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(self._topic, partitions=partitions)],
            forgotten_topics_data=[ForgottenTopic(self._topic, partitions=forgotten)],
        )

    def _take(self, topic: FetchableTopicResponse) -> None:
        """Check that no record is missing, and keep the records for polls."""
        for data in topic.partitions:
            assert data.error_code == 0
            raw = _joined(data.records)
            offset = self._offsets[data.partition_index]
            for _, header in walk(memoryview(raw)):
                assert header.base_offset == offset
                offset = header.last_offset + 1
            if raw:
                self._fetched[data.partition_index] = len(raw), offset


def _joined(records: Buffer | list[Buffer] | None) -> bytes:
    parts = records if isinstance(records, list) else [records or b""]
    return b"".join(bytes(each) for each in parts)
