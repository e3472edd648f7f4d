"""Clients that send oversized requests, and clients that name producer ids of their own invention.

A gateway must serve all other clients as if these clients did not exist.  It must answer an
oversized request by closing the connection, and in no other way.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tidegate_coordination.state.columns import MAX_INT64
from tidegate_gateway.requests.groups.feature import MAX_PROTOCOLS
from tidegate_protocol.messages import join_group, metadata, offset_fetch

from ..world.world import NotReachable
from .client import Client, Disconnected
from .producers import IdempotentProducer
from .workload import Workload

SHARE: Final = 0.1
_NAMES: Final = 3_000
_PARTITIONS: Final = 30_000
# From the range that no new cluster uses, and the highest ids that exist.
_MADE_UP: Final = ((10**9, 2 * 10**9), (MAX_INT64 - 10**6, MAX_INT64))


def draws_hostile(seed: int) -> bool:
    """Return whether a seed has such clients."""
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
    return Random(f"{seed}/hostile 3").random() < SHARE


class Hostile:
    """Sends one oversized request after another."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload

    async def run(self) -> None:
        """Send until no operation is left."""
        while self._workload.take():
            try:
                await self._ask(*self.client.rng.choice((_names(), _offsets(), _protocols())))
            except (Disconnected, NotReachable):
                self.client.close()
            await self.client.pause(5.0)
        self.client.close()

    async def _ask(self, name: str, messages: Any, version: int, request: Any) -> None:
        await self.client.call(name, messages, version, request)
        if name == "JoinGroup":
            text = f"{len(request.protocols)} protocols"
            self.client.world.complain("too much was taken", text)


def _names() -> tuple[str, Any, int, Any]:
    topics = [metadata.MetadataRequestTopic(name=f"unknown {number}") for number in range(_NAMES)]
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return "Metadata", metadata, 9, request


def _offsets() -> tuple[str, Any, int, Any]:
    asked = [offset_fetch.OffsetFetchRequestTopic("orders", list(range(_PARTITIONS)))]
    return "OffsetFetch", offset_fetch, 6, offset_fetch.OffsetFetchRequest("hostile", asked)


def _protocols() -> tuple[str, Any, int, Any]:
    one = join_group.JoinGroupRequestProtocol
    many = [one(f"{number}") for number in range(MAX_PROTOCOLS + 1)]
    request = join_group.JoinGroupRequest("hostile", 10_000, protocol_type="x", protocols=many)
    return "JoinGroup", join_group, 5, request


class MadeUp(IdempotentProducer):
    """Writes with invented producer ids, one batch at a time.

    Kafka accepts invented ids, too.  With several batches in flight the gateway could not tell the
    first batch of an id from a batch after a gap.
    """

    async def introduce(self) -> tuple[int, int]:
        """Return an invented producer id."""
        return self.rng.randint(*self.rng.choice(_MADE_UP)), 0

    def _room(self) -> int:
        return 1 - len(self._window)


def hostile_clients(workload: Workload) -> list[Hostile | MadeUp]:
    """Return one client of each kind."""
    return [Hostile(workload, "hostile"), MadeUp(workload, "made up")]
