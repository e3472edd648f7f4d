"""One group on the gateway that serves it: its machine, and the parked requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, Failure
from tidegate_coordination.groups.classic import ClassicGroup
from tidegate_coordination.groups.values import (
    Answer,
    JoinAnswer,
    Persist,
    Refusal,
    SyncAnswer,
)
from tidegate_coordination.rules.consumer_groups.groups import ChangeGroup


@dataclass(slots=True)
class Waiter:
    """A parked request."""

    done: trio.Event = field(default_factory=trio.Event)
    answer: JoinAnswer | SyncAnswer | None = None


@dataclass(slots=True)
class HostedGroup:
    """A group's state machine; this carries out the machine's effects.

    on_change: called after every event, for the timers.  on_lost: called when the claim is lost, or
    a record could not be appended.  stored: set to make callers of settle() check the machine
    again.
    """

    machine: ClassicGroup
    coordinator: Coordinator
    on_change: Callable[[HostedGroup], None]
    on_lost: Callable[[HostedGroup, Refusal], None]
    waiters: dict[int, Waiter] = field(default_factory=dict[int, Waiter])
    last_ticket: int = 0
    timer_at: float = inf
    counted_bytes: int = 0
    stored: trio.Event = field(default_factory=trio.Event)

    def park(self) -> int:
        """Park a request; return its ticket, which the caller gives to the machine."""
        self.last_ticket += 1
        self.waiters[self.last_ticket] = Waiter()
        return self.last_ticket

    async def wait(self, ticket: int, timeout_seconds: float) -> JoinAnswer | SyncAnswer | None:
        """Return the answer to a ticket; None after the timeout."""
        waiter = self.waiters[ticket]
        try:
            with trio.move_on_after(timeout_seconds):
                await waiter.done.wait()
        finally:
            del self.waiters[ticket]
        return waiter.answer

    async def settle(self, timeout_seconds: float) -> None:
        """Wait until all records of the machine are durable, at most timeout_seconds.

        Return at once while the gateway is cut off from the metadata log.
        """
        with trio.move_on_after(timeout_seconds):
            while self.machine.storing and not self.coordinator.is_cut_off:
                await self.stored.wait()

    def carry_out(self) -> None:
        """Carry out the machine's effects.

        The log appends records in the order of their submission, so a machine submits the next
        record without waiting.  A slow append delays only this group's syncs.
        """
        for effect in self.machine.take_effects():
            match effect:
                case Answer(ticket, value):
                    self._answer(ticket, value)
                case Persist(record):
                    self.coordinator.submit(
                        ChangeGroup(record),
                        partial(self._persisted, self.machine),
                        partial(self._failed, self.machine),
                    )
        self.on_change(self)

    def send_away(self) -> None:
        """End the wait of all parked requests, without an answer; the machine does not change."""
        for waiter in self.waiters.values():
            waiter.done.set()
        self._wake()

    def give_up(self, refusal: Refusal) -> None:
        """Abandon the machine; answer all parked requests with the refusal."""
        self.machine.abandon(refusal)
        for effect in self.machine.take_effects():
            if isinstance(effect, Answer):
                self._answer(effect.ticket, effect.value)
        self.stored.set()

    def _answer(self, ticket: int, value: JoinAnswer | SyncAnswer) -> None:
        waiter = self.waiters.get(ticket)
        if waiter is not None:  # None if its connection was closed, or it timed out
            waiter.answer = value
            waiter.done.set()

    def _persisted(self, machine: ClassicGroup, held: bool) -> None:
        if not machine.storing:
            return  # the machine was abandoned meanwhile
        if not held:
            self.on_lost(self, Refusal.NOT_COORDINATOR)
            return
        machine.persisted(trio.current_time())
        self._wake()
        self.carry_out()

    def _wake(self) -> None:
        """Make the callers of settle() check the machine again."""
        self.stored.set()
        self.stored = trio.Event()

    def _failed(self, machine: ClassicGroup, _failure: Failure) -> None:
        if machine.storing:
            self.on_lost(self, Refusal.UNAVAILABLE)
