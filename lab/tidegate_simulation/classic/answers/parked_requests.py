"""How joins and syncs wait at the coordinator of their group.

No task belongs to a group.  Each request first runs the timers that are due (`up_to_date`).  A
parked request wakes for the group's next time-out, so that it is answered in time.
"""

from __future__ import annotations

from typing import TypeVar

import trio

from tidegate_coordination.groups.values import JoinAnswer, SyncAnswer

from ..broker_state import BrokerState
from ..model_group import ModelGroup

_Answer = TypeVar("_Answer", JoinAnswer, SyncAnswer)


def carry_out(broker: BrokerState, group: ModelGroup) -> None:
    """Carry out what the machine decided for a request, and let parked requests see it."""
    group.carry_out(broker.now())
    broker.signals.notify(group)


async def answer_to(
    broker: BrokerState, group: ModelGroup, ticket: int, kind: type[_Answer]
) -> _Answer:
    """Wait for the answer to a join or a sync."""
    try:
        while ticket not in group.answers:
            due = group.machine.next_deadline()
            with broker.signals.watch([group]) as changed, trio.move_on_at(due):
                await changed.wait()
            group.run_timers(broker.now())
        answer = group.answers[ticket]
    finally:
        group.answers.pop(ticket, None)
    assert isinstance(answer, kind)
    return answer
