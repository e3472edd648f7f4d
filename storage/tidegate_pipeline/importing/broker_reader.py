"""Reads units from the brokers of the source, as a consumer does."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, cast

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import Refused
from tidegate_coordination.client.metadata import topic_id_of
from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.wire.connection import MakeRequest
from tidegate_coordination.client.wire.dialling import Dial, dial_of
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

from .readers import HistoryDiffers, OffsetGone, Portion, Reader, SourceFailed
from .work import ImportUnit

FETCH_BYTES: Final = 8 << 20
WAIT_MS: Final = 500
EMPTY_ANSWERS: Final = 3
"""So often a broker answers without batches below its end before that is believed: it also waits
for tiered storage."""
_EPOCHS_SINCE: Final = 12
"""From this version of Fetch on, a source says where its history parts from the copy's."""
_NO_EPOCH: Final = -1
_NO_SESSION: Final = -1


@dataclass(frozen=True)
class BrokerOrigin:
    """See Origin.  cluster_id: the source's.  dial: makes the Dial of the properties."""

    properties: ClientProperties
    cluster_id: str
    dial: Callable[[ClientProperties], Dial] = dial_of

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Reader, None]:
        """See Origin."""
        async with trio.open_nursery() as nursery:
            dial = self.dial(self.properties)
            rng = Random(os.urandom(32))
            cluster = ClassicCluster(nursery, dial, self.properties, rng=rng)
            yield BrokerReader(cluster, self.cluster_id)
            nursery.cancel_scope.cancel()


class BrokerReader:
    """See Reader."""

    def __init__(self, cluster: ClassicCluster, cluster_id: str) -> None:
        self._cluster = cluster
        self._cluster_id = cluster_id

    async def read(self, unit: ImportUnit, position: int, epoch: int) -> Portion:
        """See Reader."""
        await self._check_topic(unit)

        def request(version: int) -> FetchRequest:
            return _request(unit, position, epoch if version >= _EPOCHS_SINCE else _NO_EPOCH)

        data = await self._fetched(unit, request, position)
        for _ in range(EMPTY_ANSWERS - 1):
            if data.records or data.high_watermark <= position:
                break
            data = await self._fetched(unit, request, position)
        if data.diverging_epoch is not None and data.diverging_epoch.epoch >= 0:
            raise HistoryDiffers(
                f"the source has another history from offset {data.diverging_epoch.end_offset} on:"
                " it lost records in an unclean election"
            )
        return Portion(cast("memoryview", data.records or memoryview(b"")))

    async def _check_topic(self, unit: ImportUnit) -> None:
        if unit.topic not in self._cluster.metadata.topics:
            await self._cluster.refresh([unit.topic])
        topic = self._cluster.metadata.topics[unit.topic]
        if topic.error_code:
            raise Refused(f"topic {unit.topic}", topic.error_code)
        if topic_id_of(topic, self._cluster_id) != unit.shown_id:
            raise SourceFailed(f"the source has another topic {unit.topic} now")

    async def _fetched(
        self, unit: ImportUnit, request: MakeRequest, position: int
    ) -> PartitionData:
        response: FetchResponse = await self._cluster.call_leader(
            unit.topic, unit.partition, "Fetch", request, wait_seconds=WAIT_MS / 1000
        )
        parts = [each for found in response.responses for each in found.partitions]
        if response.error_code or not parts:
            raise Refused("Fetch", response.error_code or ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        code = parts[0].error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetGone(f"the source does not have offset {position}")
        if code:
            raise Refused(f"{unit.topic}-{unit.partition}", code)
        return parts[0]


def _request(unit: ImportUnit, position: int, epoch: int) -> FetchRequest:
    partition = FetchPartition(
        unit.partition,
        fetch_offset=position,
        last_fetched_epoch=epoch,
        partition_max_bytes=FETCH_BYTES,
    )
    return FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        session_epoch=_NO_SESSION,
        topics=[FetchTopic(topic_id=unit.shown_id, topic=unit.topic, partitions=[partition])],
    )
