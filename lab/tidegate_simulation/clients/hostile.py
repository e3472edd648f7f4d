"""Clients that ask for far too much, and name producer ids that nobody gave them.

All others must be served as if they were not there; a request that is too much is refused by a
closed connection, and nothing else.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tidegate_coordination.state.columns import MAX_INT64
from tidegate_gateway.network.large_requests import MAX_ELEMENTS_OF
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages import join_group, metadata, offset_fetch

from ..world.world import NotReachable
from .client import Client, Disconnected
from .producers import IdempotentProducer
from .workload import Workload

SHARE: Final = 0.1
_NAMES: Final = 3_000
_PARTITIONS: Final = 30_000
# Of the range that is no new cluster's, and the last there are.
_MADE_UP: Final = ((10**9, 2 * 10**9), (MAX_INT64 - 10**6, MAX_INT64))


def draws_hostile(seed: int) -> bool:
    """Tell whether a seed has such clients."""
    # The number leaves alone the seeds by which planted bugs are known to be found.
    return Random(f"{seed}/hostile 3").random() < SHARE


class Hostile:
    """Sends one large request after the other."""

    def __init__(self, workload: Workload, name: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload

    async def run(self) -> None:
        """Ask until no operation is left."""
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
    many = [one(f"{number}") for number in range(MAX_ELEMENTS_OF[ApiKey.JOIN_GROUP] + 1)]
    request = join_group.JoinGroupRequest("hostile", 10_000, protocol_type="x", protocols=many)
    return "JoinGroup", join_group, 5, request


class MadeUp(IdempotentProducer):
    """Writes with producer ids that nobody gave it, one batch at a time.

    Kafka takes them, too; with several under way a gap could not be told from a beginning.
    """

    async def introduce(self) -> tuple[int, int]:
        """Return a producer id out of thin air."""
        return self.rng.randint(*self.rng.choice(_MADE_UP)), 0

    def _room(self) -> int:
        return 1 - len(self._window)


def hostile_clients(workload: Workload) -> list[Hostile | MadeUp]:
    """Return one of each."""
    return [Hostile(workload, "hostile"), MadeUp(workload, "made up")]
