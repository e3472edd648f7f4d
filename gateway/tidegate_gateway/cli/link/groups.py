"""Runs `tidegate link move-groups`: takes groups over from the source.

A group that gateways forward moves with its members.  Any other group moves only with its offsets,
and must have no members meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.groups.group_offsets import (
    GroupOffset,
    commit,
    committed,
    states_of,
)
from tidegate_coordination.client.opened_source import opened_source
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_runtime.settings_texts import BadSource

from ...migration.units.group_move import GroupMove, Moved, first_late, late_text, of_link
from ..asking import agreed, check_json
from ..existing_cluster import NOT_DONE, ClusterOptions, opened_cluster, run_told
from ..output.table import aligned, counted, printable
from .commands import known_link
from .verify import any_gateway

COPY_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.2
_MOVABLE: Final = frozenset({"Empty", "Dead"})


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """The options as typed.  replaces: whether offsets that the group has here may be replaced."""

    name: str
    groups: tuple[str, ...]
    gateway: str | None
    replaces: bool
    client_properties: Path | None
    yes: bool = False


def run_move_groups(cluster: ClusterOptions, options: GroupOptions, *, as_json: bool) -> int:
    """Move the groups, one after the other; return the exit code."""

    async def work() -> int:
        check_json(as_json=as_json, asks=not options.yes)
        if not options.groups:
            raise BadSource("name the groups to move")
        async with opened_cluster(cluster) as coordinator:
            link = known_link(coordinator.state, options.name)
            gateway = options.gateway or any_gateway(coordinator.state)
            question = f"Move {counted(len(set(options.groups)), 'group')} to this cluster?"
            if not await agreed(question, yes=options.yes):
                return NOT_DONE
            async with (
                opened_source(link.bootstrap_servers, options.client_properties) as source,
                opened_source(gateway, None) as here,
            ):
                move = _Move(coordinator, options, source, here)
                moved = [await move.group(each) for each in dict.fromkeys(options.groups)]
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
        self._state = coordinator.state
        self._live = GroupMove(coordinator, options.name, source)
        self._options = options
        self._source = source
        self._here = here
        self._states: dict[str, str] | None = None

    async def group(self, group: str) -> Moved:
        """Move one group."""
        groups, name = self._state.link_groups, self._options.name
        if group in groups.moved.get(name, ()):
            return Moved(group, 0, "it has moved already")
        link = groups.link_of(group)
        if link == name:
            return await self._live.move(group)
        if link:
            return Moved(group, 0, f"gateways forward it to the source of link {link}")
        try:
            return await self._moved(group, await self._state_of(group))
        except ClassicError as error:
            return Moved(group, 0, str(error))

    async def _state_of(self, group: str) -> str:
        if self._states is None:
            self._states = await states_of(self._source)
        return self._states.get(group, "")

    async def _moved(self, group: str, state: str) -> Moved:
        if state not in _MOVABLE:
            why = f"it is {state} at the source: stop its members first"
            return Moved(group, 0, why if state else "the source shows no such group")
        name = self._options.name
        found = await committed(self._source, group)
        offsets = await of_link(self._state, name, self._source, found)
        if not offsets:
            return Moved(group, 0, "it has no offset of a topic of this link")
        if not self._options.replaces and await self._has_own(group, offsets):
            return Moved(group, 0, "it has offsets here; give --replace to replace them")
        with trio.move_on_after(COPY_SECONDS):
            while first_late(self._state, name, offsets) is not None:
                await trio.sleep(_LOOK_SECONDS)
                await self._coordinator.catch_up()
        late = first_late(self._state, name, offsets)
        if late is not None:
            return Moved(group, 0, late_text(late))
        await commit(self._here, group, offsets)
        left = len(found) - len(offsets)
        return Moved(group, len(offsets), "", left=left, needs_start=True)

    async def _has_own(self, group: str, offsets: Sequence[GroupOffset]) -> bool:
        own = {(each.topic, each.partition) for each in await committed(self._here, group)}
        return any((each.topic, each.partition) in own for each in offsets)


def _text(moved: Sequence[Moved]) -> str:
    cells = [("group", "offsets", "")]
    cells += [(printable(each.group), str(each.offsets), _note(each)) for each in moved]
    done = sum(1 for each in moved if not each.problem)
    lines = [*aligned(cells), f"{done} of {len(moved)} groups have their offsets here."]
    if any(not each.problem and each.needs_start for each in moved):
        lines.append(
            "Start their consumers at the gateways now. Nothing was changed at the source."
        )
    return "\n".join(lines)


def _note(moved: Moved) -> str:
    if moved.problem:
        return printable(moved.problem)
    notes: list[str] = []
    if moved.members:
        how = "join again" if moved.joins_again else "go on"
        notes.append(f"its {moved.members} members {how} here")
    if moved.left:
        notes.append(f"{moved.left} offsets of topics that are not mirrored stay at the source")
    return "; ".join(notes)
