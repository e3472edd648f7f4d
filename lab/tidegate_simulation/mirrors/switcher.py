"""The operator who switches mirrored topics to the gateways, and the checks afterwards."""

from __future__ import annotations

from typing import Any, Final

import trio

from tidegate_coordination.coordinator.coordinator import ProposalFailed
from tidegate_coordination.coordinator.waiting import CoordinatorUnavailable
from tidegate_coordination.rules.migration.returns import EndReverse, FenceReturn, ReverseTopics
from tidegate_coordination.rules.migration.switches import FenceTopics
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.migration.switches import Switched, SwitchTable
from tidegate_coordination.state.topics import Topic

from ..clients.client import Client
from ..clients.workload import Workload
from ..world.node import Node
from .forward_clients import ForwardPipeliner
from .source import LINK, UNIT_TOPIC, Source
from .source_clients import SourceWriter

LIMIT: Final = "max.message.bytes"
FENCED: Final = "0"
_COMPACTED: Final = "compact"
_WAIT_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.1
_REVERSE_SECONDS: Final = 12.0
_RETURNED_SHARE: Final = 0.6
_CANCELLED_SHARE: Final = 0.1
_HASTE_SECONDS: Final = 0.3


class Switcher:
    """Switches topics, one or two at a time, until the plan's number is reached.

    A compacted topic stays at the source: this cluster would compact it, while readers know only
    the source's batches.
    """

    def __init__(self, workload: Workload, name: str, source: Source) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._world = workload.world
        self._source = source
        self._bypasser = SourceWriter(workload, f"{name}'s bypasser", source)
        self._hasty = ForwardPipeliner(workload, f"{name}'s hasty client", source)

    async def run(self) -> None:
        """Switch until no operation is left."""
        while self._workload.take():
            await self.client.pause(8.0)
            left = self._world.plan.links.switches - len(self._switches.switched)
            returns = self._world.plan.links.returns and bool(self._switches.switched)
            if returns and (left <= 0 or self.client.rng.random() < _RETURNED_SHARE):
                await self._return()
            elif left > 0:
                await self._switch(min(left, self.client.rng.randint(1, 2)))
        self.client.close()

    @property
    def _switches(self) -> SwitchTable:
        return self._world.watch.state.switches

    async def _switch(self, count: int) -> None:
        topics = self._candidates()
        chosen = self.client.rng.sample(topics, min(count, len(topics)))
        wanted = tuple((each.topic_id, self._limit(each.name)) for each in chosen)
        if not wanted:
            return
        number = await self._fence(wanted)
        if number is None:
            return
        with trio.move_on_after(_WAIT_SECONDS):
            while number in self._switches.fences:
                await self._bypass({each.topic_id for each in chosen})
        is_done = chosen[0].topic_id in self._switches.switched
        self._world.strikes.count("source.switched" if is_done else "source.lifted")

    async def _return(self) -> None:
        """Return a switched topic to its source, or only begin or end to write it back."""
        rng = self.client.rng
        topics = self._world.watch.state.topics.by_id
        names = sorted(topics[each].name for each in self._switches.switched if each in topics)
        names = [each for each in names if not self._is_of_unit(each)]
        if not names:
            return
        chosen = (rng.choice(names),)
        if rng.random() < _CANCELLED_SHARE:
            await self._propose(EndReverse(LINK, chosen))
            return
        answer = await self._propose(ReverseTopics(LINK, chosen))
        if not isinstance(answer, list):
            return
        await trio.sleep(rng.uniform(0, _REVERSE_SECONDS))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hasty.send_some, chosen[0])
            await trio.sleep(rng.uniform(0, _HASTE_SECONDS))
            number = await self._propose(FenceReturn(LINK, chosen))
        if not isinstance(number, int):
            return
        with trio.move_on_after(_WAIT_SECONDS):
            while number in self._switches.fences:  # noqa: ASYNC110 - gateways make it so
                await trio.sleep(_LOOK_SECONDS)
        state = self._world.watch.state
        is_back = bool(state.topics.by_name[chosen[0]].link)
        self._world.strikes.count("source.returned" if is_back else "source.kept")

    async def _bypass(self, topic_ids: set[bytes]) -> None:
        """Write to the source while it takes writes, as a client that uses no gateway."""
        places = [each for each in self._source.partitions() if each[0] in topic_ids]
        if places and self._workload.take():
            await self._bypasser.write_late(self.client.rng.choice(places))
        await trio.sleep(self.client.rng.uniform(0, _LOOK_SECONDS))

    def _candidates(self) -> list[Topic]:
        state = self._world.watch.state
        return [
            each
            for each in state.links.topics_of(LINK)
            if _COMPACTED not in each.name
            and each.name in self._source.cluster.topics
            and not self._is_of_unit(each.name)
        ]

    def _is_of_unit(self, name: str) -> bool:
        """Return whether another operator moves the topic, together with transactional ids."""
        return self._world.plan.links.transactions and name == UNIT_TOPIC

    def _limit(self, name: str) -> str:
        return self._source.cluster.topics[name].configs.latest.get(LIMIT, "")

    async def _fence(self, wanted: tuple[tuple[bytes, str], ...]) -> int | None:
        if any(limit == FENCED for _, limit in wanted):
            return None
        answer = await self._propose(FenceTopics(LINK, wanted))
        return answer if isinstance(answer, int) else None

    async def _propose(self, proposal: Proposal[Any]) -> Any:
        """Return the answer that a gateway gets from the log; None if it gets none."""
        nodes = [each for each in self._world.nodes.values() if isinstance(each, Node)]
        gateway = self.client.rng.choice(nodes).gateway
        if gateway is None:
            return None
        try:
            with trio.move_on_after(30):
                return await gateway.coordinator.propose(proposal)
        except (CoordinatorUnavailable, ProposalFailed):
            pass
        return None


def _wrong_ends(
    state: ClusterState, topic_id: bytes, switched: Switched, ends: tuple[int, ...]
) -> list[str]:
    """Return the partitions whose source ends at a wrong offset after the switch.

    If gateways have written back and stopped, the source may end anywhere between the offset of the
    switch and the present end.
    """
    topic = state.topics.by_id.get(topic_id)
    if topic is None:
        return []
    own = [state.partitions[each].next_offset for each in topic.partition_numbers]
    expected = own if switched.reached else switched.ends
    wrong = [
        f"{topic.name}-{index} should end at {end} at the source, and ends at {ends[index]}"
        for index, end in enumerate(expected[: len(switched.ends)])
        if not (end <= ends[index] <= own[index])
    ]
    return wrong


def _opened(state: ClusterState) -> list[str]:
    """Return the switched topics with an open transaction, whose end will never be copied."""
    topics = (state.topics.by_id.get(each) for each in state.switches.switched)
    return [
        topic.name
        for topic in topics
        if topic is not None
        and any(state.partitions[number].open for number in topic.partition_numbers)
    ]


def wrong_switches(state: ClusterState, source: Source) -> list[str]:
    """Return problems after the last switch, when all faults are over.

    The source of a switched topic must end where it ended at the switch.  The source of any other
    topic must take writes.
    """
    wrong = [f"fence {each} stands" for each in state.switches.fences]
    wrong += [f"{each} has an open transaction" for each in _opened(state)]
    for topic in source.cluster.topics.values():
        switched = state.switches.switched.get(topic.topic_id)
        is_fenced = topic.configs.latest.get(LIMIT) == FENCED
        is_closed = switched is not None and not switched.reached
        if is_fenced != is_closed:
            wrong.append(f"{topic.name}: fenced {is_fenced}, only here {is_closed}")
        ends = tuple(each.log.end_offset for each in topic.partitions)
        if switched is not None and not switched.problem:
            wrong += _wrong_ends(state, topic.topic_id, switched, ends)
    return wrong
