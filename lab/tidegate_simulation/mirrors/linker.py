"""The operator who makes the link, and the end of a run: all copies must become complete."""

from __future__ import annotations

from typing import Final

import trio

from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.mirrors import LinkRefusal, SetLink
from tidegate_coordination.state.cluster import ClusterState

from ..classic.model_topics import ModelPartition
from ..clients.client import Client
from ..clients.workload import Workload
from ..world.node import Node
from ..world.world import World
from .group_clients import NAMES, wrong_groups
from .source import LINK, PATTERN, Source
from .switcher import wrong_switches
from .transaction_clients import IDS

_LOOK_SECONDS: Final = 1.0


class Linker:
    """Makes the link through any gateway, and repeats that until the link exists."""

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._world = workload.world
        self._source = source

    async def run(self) -> None:
        """Make the link."""
        await self.client.pause(5.0)
        while LINK not in self._world.watch.state.links.by_name:
            await self._try()
            await self.client.pause(1.0)
        self.client.close()

    async def _try(self) -> None:
        source = self._source
        plan = self._world.plan.links
        proposal = SetLink(
            LINK,
            source.cluster.cluster_id,
            source.bootstrap,
            (PATTERN,),
            forwards=plan.forwards,
            groups=NAMES if plan.groups or plan.transactions else (),
            transactional_ids=(IDS,) if plan.transactions else (),
            transaction_version=2 if plan.transactions else 0,
        )
        nodes = [each for each in self._world.nodes.values() if isinstance(each, Node)]
        gateway = self.client.rng.choice(nodes).gateway
        if gateway is None:
            return
        try:
            with trio.move_on_after(30):
                answer = await gateway.coordinator.propose(proposal)
                if answer not in (None, LinkRefusal.EXISTS):
                    self._world.complain("false error", f"SetLink: {answer}")
        except (CoordinatorUnavailable, ProposalFailed):
            pass


def incomplete(state: ClusterState, source: Source) -> list[str]:
    """Return how the copies differ from the source in their bounds."""
    wrong: list[str] = []
    for topic_id, partition in source.partitions():
        if topic_id in state.switches.switched:
            continue
        difference = _difference(state, topic_id, partition)
        if difference:
            wrong.append(f"{partition.key}: {difference}")
    return wrong + wrong_switches(state, source) + wrong_groups(state)


def _difference(state: ClusterState, topic_id: bytes, partition: ModelPartition) -> str:
    topic = state.topics.by_id.get(topic_id)
    index, log = partition.key.partition, partition.log
    if topic is None or index >= len(topic.partition_numbers):
        return "there is no copy"
    copy = state.partitions[topic.partition_numbers[index]]
    found = (copy.log_start, copy.last_stable_offset, copy.next_offset)
    expected = (log.log_start, log.last_stable_offset, log.high_watermark)
    # After a topic belonged to this cluster for a while, its log start may be higher here.
    is_later = topic_id in state.switches.reopened and found[0] > expected[0]
    is_right = found[is_later:] == expected[is_later:]
    return "" if is_right else f"{found} is here, and {expected} there"


async def wait_for_copies(world: World, source: Source) -> None:
    """Wait until all copies are complete; the source must be healed, and get no more writes."""
    while incomplete(world.watch.state, source):  # noqa: ASYNC110 - gateways make it so
        await trio.sleep(_LOOK_SECONDS)
