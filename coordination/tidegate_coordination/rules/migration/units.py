"""Units: groups and transactional ids that are switched with their topics, in one entry of the log.

A transaction cannot span two clusters, so the topics and groups of a transactional id move with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ...events.cluster import Event
from ...events.transactions import TransactionalIdInitialised
from ...state.cluster import ClusterState
from ...state.migration.source_groups import GroupFence, is_named
from ...state.transactions.rows import AT_REST, NO_EPOCH, NO_ID, TransactionalId, TransactionState
from ..proposal import View
from .group_moves import GroupToMove, moved_groups, unfit_groups, unreached_groups

MAX_IDS: Final = 2_000
"""The most transactional ids of one unit: an entry of the log must hold them."""
_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class IdToMove:
    """A transactional id as its source describes it.  state: see TransactionState."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: int


def unready_unit(state: ClusterState, link: str, number: int) -> str:
    """Return why topics cannot be fenced with a unit; "" for nothing."""
    fence = state.link_groups.fences.get(number)
    if fence is None or fence.link != link:
        return "the fence of the groups and transactional ids was lifted"
    if fence.switch:
        return "the groups and transactional ids move with other topics"
    return unreached_groups(state, fence)


def unfit_unit(
    state: ClusterState,
    fence: GroupFence,
    groups: Sequence[GroupToMove],
    ids: Sequence[IdToMove],
) -> str:
    """Return why a unit cannot move; "" for nothing."""
    return (
        unreached_groups(state, fence)
        or unfit_groups(state, fence, groups)
        or _unfit_ids(state, fence, ids)
    )


def _unfit_ids(state: ClusterState, fence: GroupFence, ids: Sequence[IdToMove]) -> str:
    if len(ids) > MAX_IDS:
        return f"there are {len(ids)} transactional ids: a unit has up to {MAX_IDS}"
    if len({each.transactional_id for each in ids}) < len(ids):
        return "a transactional id is named twice"
    if len({each.producer_id for each in ids}) < len(ids):
        return "two transactional ids have one producer id"
    for each in ids:
        name = each.transactional_id
        if not is_named(fence.ids, name):
            return f"transactional id {name} is not one of the unit"
        if state.transactions.get(name) is not None:
            return f"transactional id {name} is here already"
        if state.transactions.name_of(each.producer_id) is not None:
            return f"the producer id of transactional id {name} is another id's here"
        if each.state not in AT_REST:
            return f"transactional id {name} has an open transaction"
    return ""


def moved_unit(
    view: View, fence: GroupFence, groups: Sequence[GroupToMove], ids: Sequence[IdToMove]
) -> Iterator[Event]:
    """Yield the events that move a unit here, without the events of its topics."""
    yield from moved_groups(view, fence, groups)
    for each in ids:
        name = each.transactional_id
        row = TransactionalId(
            each.producer_id,
            each.epoch,
            NO_EPOCH,
            NO_ID,
            each.timeout_ms,
            TransactionState(each.state),
            _NEVER,
            view.log_time_ms,
            _NEVER,
        )
        view.transactions.put(name, row)
        yield TransactionalIdInitialised(
            name,
            each.producer_id,
            each.epoch,
            NO_EPOCH,
            NO_ID,
            each.timeout_ms,
            state=int(each.state),
        )
