"""Fences groups and transactional ids that are switched with their topics."""

from __future__ import annotations

from typing import Final

import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.migration.group_moves import FenceGroups, UnfenceGroups
from tidegate_coordination.rules.migration.units import unready_unit
from tidegate_coordination.state.cluster import ClusterState

from ..fence_ages import COMMAND_SECONDS
from .closure import Unit
from .source_ids import OPEN_TEXT, listed_ids

LOOK_SECONDS: Final = 0.02
SILENT_TEXT: Final = "the source does not say whether a transaction is open"


class NotAtRest(Exception):
    """The unit stays at its source; the text says why, for a person."""


async def fenced_unit(
    coordinator: Coordinator, source: ClassicCluster, link: str, unit: Unit
) -> int:
    """Fence the groups and transactional ids; return the fence once no transaction is open.

    That is: no transaction is open at the source or in the copies.

    Raises:
      NotAtRest: this took too long, or is not possible.
      CoordinatorUnavailable: the log does not answer.  If there is a fence, gateways lift it.
    """
    number = await coordinator.propose(FenceGroups(link, unit.groups, unit.transactional_ids))
    if isinstance(number, str):
        raise NotAtRest(number)
    problem = ""
    try:
        problem = await _rest(coordinator, source, link, number, unit)
    except ClassicError as error:
        problem = str(error)
    except BaseException:
        await unfenced_unit(coordinator, number, "the command that moves it has ended")
        raise
    if problem:
        await unfenced_unit(coordinator, number, problem)
        raise NotAtRest(problem)
    return number


async def unfenced_unit(coordinator: Coordinator, number: int, reason: str) -> None:
    """Lift a fence; its groups and ids stay at the source."""
    with trio.CancelScope(shield=True), trio.move_on_after(COMMAND_SECONDS):
        await coordinator.propose(UnfenceGroups(number, reason))


async def _rest(
    coordinator: Coordinator, source: ClassicCluster, link: str, number: int, unit: Unit
) -> str:
    """Wait until the unit is at rest; return why not, or "".

    At rest: no gateway has an unanswered change of the unit's groups and ids, or an unanswered
    batch of its ids; and no transaction of the unit is open at the source or in its copies.
    """
    text = SILENT_TEXT
    with trio.move_on_after(COMMAND_SECONDS):
        while text := unready_unit(coordinator.state, link, number):
            if number not in coordinator.state.link_groups.fences:
                return text
            await trio.sleep(LOOK_SECONDS)
            await coordinator.catch_up()
        text, table = SILENT_TEXT, coordinator.state.link_groups
        while True:
            ids = await listed_ids(
                source, unit.transactional_ids, lambda name: table.link_of_id(name) == link
            )
            still_open = [each.name for each in ids if not each.is_at_rest]
            if not still_open:
                break
            text = OPEN_TEXT.format(still_open[0])
            await trio.sleep(LOOK_SECONDS)
        while text := _open_copy(coordinator.state, unit):
            await trio.sleep(LOOK_SECONDS)
            await coordinator.catch_up()
    return text


def _open_copy(state: ClusterState, unit: Unit) -> str:
    """Return which copy lacks the end of a transaction, for a person; "" if none does."""
    for name in unit.topics:
        topic = state.topics.by_name.get(name)
        for index, number in enumerate(topic.partition_numbers if topic is not None else ()):
            if state.partitions[number].open:
                return f"the copy of {name}-{index} has an open transaction"
    return ""
