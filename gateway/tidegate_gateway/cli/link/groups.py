"""Runs `tidegate link move-groups`: takes committed offsets of groups over from the source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import trio

from tidegate_coordination.classic.cluster import ClassicCluster
from tidegate_coordination.classic.errors import ClassicError
from tidegate_coordination.classic.metadata import topic_id_of
from tidegate_coordination.classic.opened_source import opened_source
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.settings_texts import BadSource

from ...links.group_offsets import GroupOffset, commit, committed, states_of
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from ..table import aligned, printable
from .commands import known_link
from .verify import any_gateway

COPY_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.2
_MOVABLE: Final = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """As they were typed.  replaces: whether offsets that the group has here may be replaced."""

    name: str
    groups: tuple[str, ...]
    gateway: str | None
    replaces: bool
    client_properties: Path | None


class Moved(NamedTuple):
    """A group.  offsets: that were committed here.  problem: why none was; "" if they were."""

    group: str
    offsets: int
    problem: str


def run_move_groups(cluster: ClusterOptions, options: GroupOptions, *, as_json: bool) -> int:
    """Move the groups, each on its own; return the exit code."""

    async def work() -> int:
        if not options.groups:
            raise BadSource("name the groups to move")
        async with opened_cluster(cluster) as coordinator:
            link = known_link(coordinator.state, options.name)
            gateway = options.gateway or any_gateway(coordinator.state)
            async with (
                opened_source(link.bootstrap_servers, options.client_properties) as source,
                opened_source(gateway, None) as here,
            ):
                states = await states_of(source)
                move = _Move(coordinator, options, source, here)
                moved = [
                    await move.group(each, states.get(each, ""))
                    for each in dict.fromkeys(options.groups)
                ]
        print(json.dumps([each._asdict() for each in moved]) if as_json else _text(moved))
        return NOT_DONE if any(each.problem for each in moved) else 0

    return run_told(work)


class _Move:
    def __init__(
        self,
        coordinator: Coordinator,
        options: GroupOptions,
        source: ClassicCluster,
        here: ClassicCluster,
    ) -> None:
        self._coordinator = coordinator
        self._options = options
        self._source = source
        self._here = here

    async def group(self, group: str, state: str) -> Moved:
        """Move one group."""
        try:
            return await self._moved(group, state)
        except ClassicError as error:
            return Moved(group, 0, str(error))

    async def _moved(self, group: str, state: str) -> Moved:
        if state not in _MOVABLE:
            why = f"it is {state} at the source: stop its members first"
            return Moved(group, 0, why if state else "the source shows no such group")
        offsets = await self._of_link(await committed(self._source, group))
        if not offsets:
            return Moved(group, 0, "it has no offset of a topic of this link")
        if not self._options.replaces and await self._has_own(group, offsets):
            return Moved(group, 0, "it has offsets here; give --replace to replace them")
        late = await self._copied(offsets)
        if late is not None:
            place = f"{printable(late.topic)}-{late.partition}"
            return Moved(group, 0, f"the copy of {place} has not reached offset {late.offset}")
        await commit(self._here, group, offsets)
        return Moved(group, len(offsets), "")

    async def _of_link(self, offsets: Sequence[GroupOffset]) -> list[GroupOffset]:
        """Return those of topics that the link mirrors, or that were switched."""
        names = {each.topic for each in offsets}
        metadata = await self._source.refresh(names)
        link = known_link(self._coordinator.state, self._options.name)
        theirs = {
            name: topic_id_of(found, link.cluster_id)
            for name in names
            if (found := metadata.topics.get(name)) is not None and not found.error_code
        }
        return [
            each
            for each in offsets
            if (topic := self._topic(each)) is not None
            and theirs.get(each.topic) == topic.topic_id
            and each.partition < len(topic.partition_numbers)
        ]

    def _topic(self, offset: GroupOffset) -> Topic | None:
        return topic_of_link(self._coordinator.state, self._options.name, offset.topic)

    async def _has_own(self, group: str, offsets: Sequence[GroupOffset]) -> bool:
        own = {(each.topic, each.partition) for each in await committed(self._here, group)}
        return any((each.topic, each.partition) in own for each in offsets)

    async def _copied(self, offsets: Sequence[GroupOffset]) -> GroupOffset | None:
        """Wait until the copies reach the offsets; return one that they do not reach in time.

        Else a consumer would find its position beyond the end.
        """
        with trio.move_on_after(COPY_SECONDS):
            while self._first_late(offsets) is not None:
                await trio.sleep(_LOOK_SECONDS)
                await self._coordinator.catch_up()
        return self._first_late(offsets)

    def _first_late(self, offsets: Sequence[GroupOffset]) -> GroupOffset | None:
        partitions = self._coordinator.state.partitions
        for each in offsets:
            topic = self._topic(each)
            assert topic is not None
            if partitions[topic.partition_numbers[each.partition]].next_offset < each.offset:
                return each
        return None


def topic_of_link(state: ClusterState, link: str, name: str) -> Topic | None:
    """Return a topic that a link mirrors, or that was switched from its source."""
    topic = state.topics.by_name.get(name)
    if topic is None:
        return None
    switched = state.switches.switched.get(topic.topic_id)
    is_own = topic.link == link or (switched is not None and switched.link == link)
    return topic if is_own else None


def _text(moved: Sequence[Moved]) -> str:
    cells = [("group", "offsets", "")]
    cells += [(printable(each.group), str(each.offsets), each.problem) for each in moved]
    done = sum(1 for each in moved if not each.problem)
    lines = [*aligned(cells), f"{done} of {len(moved)} groups have their offsets here."]
    if done:
        lines.append(
            "Start their consumers at the gateways now. Nothing was changed at the source."
        )
    return "\n".join(lines)
