"""Where partitions of a source end, if one of its brokers is silent."""

from __future__ import annotations

from typing import Any, cast

import trio
from trio.testing import MockClock

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import Disconnected
from tidegate_coordination.client.metadata import ClusterMetadata, updated
from tidegate_coordination.client.source_bounds import source_ends
from tidegate_protocol.messages import metadata as md

SILENT_SECONDS = 30.0


class SilentCluster:
    """A cluster whose only broker accepts requests, but answers none in time."""

    def __init__(self) -> None:
        partition = md.MetadataResponsePartition(0, 0, 1)
        topic = md.MetadataResponseTopic(0, "t", partitions=[partition])
        answer = md.MetadataResponse(brokers=[md.MetadataResponseBroker(1, "b1", 9092)])
        answer.topics.append(topic)
        self.metadata = updated(ClusterMetadata(), answer, is_whole=True, now=0.0)
        self.asked = 0

    async def connection(self, _: int) -> SilentCluster:
        return self

    async def call(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        await trio.sleep(SILENT_SECONDS)
        raise Disconnected("b1 did not answer")

    async def refresh(self, _: Any) -> None:
        await trio.sleep(SILENT_SECONDS)


async def test_a_silent_broker_is_not_asked_again_and_again(autojump_clock: MockClock) -> None:
    cluster = SilentCluster()
    begun = trio.current_time()
    found = await source_ends(cast("ClassicCluster", cluster), [("t", 0)])
    assert found == {("t", 0): "b1 did not answer"}
    assert cluster.asked == 1
    assert trio.current_time() - begun < 2 * SILENT_SECONDS
