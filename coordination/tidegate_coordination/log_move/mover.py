"""The move of a live log, step by step; an interrupted move begins again (decision 13).

    1  LogMoveBegun      no gateway trims the old log any more, or puts bytes of records into it
       (decision 49); the mover waits until the store has the bytes that are there
    2  a snapshot in the new log, marked as a copy; no gateway starts on a marked log
    3  entries after it are copied, from here to the end
    4  near: LogMoveOffered; every gateway opens the new log, looks for this very entry, answers
    5  nearly level, all ready: LogMoved, by compare-and-set; the old log accepts no more entries
    6  a gateway that reads LogMoved copies the last entries, if they are missing, and continues
    there

Before 5 the move has only copied, so it ends with the incarnation of its mover, or by
LogMoveCancelled.  After 5 the gateways complete the move themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

import trio

from tidegate_runtime.url_secrets import without_secrets

from ..coordinator.coordinator import Coordinator
from ..log.copying import COPY_BYTES, begin_copy, in_use, look_at_copy, patiently, put_copy
from ..log.metadata_log import LogCorrupt, LogMisconfigured, LogMisuse, MetadataLog, Trimmed
from ..log.snapshots import encode_state
from ..logs.movable import MovableLog
from ..rules.log_moves import BeginLogMove, CancelLogMove, MoveStep, OfferLog, SealLog
from ..state.changes import EVERY_ENTRY
from ..state.writers.gateways import Gateway

LEVEL_ENTRIES: Final = 2
# A fast enough copy gets this long to reach the source's end, before the source is sealed anyway.
LEVEL_SECONDS: Final = 2.0
WAIT_SECONDS: Final = 1.0
# Gateways look for the offer in the copy only for a limited time (watch.LOOK_SECONDS, 15).
NEAR_SECONDS: Final = 5.0

Say = Callable[[str], None]


class MoveRefused(Exception):
    """The log stays where it is.  The text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class MovePlan:
    """The target of a move, and its time limits.

    url: the new log's URL; gateways get it without its secrets. ready_seconds: how long gateways
    may take to answer and the copy to catch up.
    stall_seconds: the longest time without appends while the last entries are copied.
    """

    move_id: str
    url: str
    ready_seconds: float = 60.0
    stall_seconds: float = 3.0


@dataclass(slots=True)
class MoveReport:
    """first_copied, sealed_at: positions.

    stall_entries: entries copied after the old log was sealed.
    """

    first_copied: int = 0
    copied: int = 0
    sealed_at: int = 0
    stall_entries: int = 0
    gateways: int = 0


class LogMover:
    """See the module's head.

    coordinator: runs, with a registered incarnation that renews its lease.  log: the coordinator's
    log, which began at the source.  source, target: the two logs.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        log: MovableLog,
        source: MetadataLog,
        target: MetadataLog,
        plan: MovePlan,
        say: Say,
    ) -> None:
        self._coordinator = coordinator
        self._log = log
        self._state = coordinator.state
        self._source = source
        self._target = target
        self._plan = plan
        self._say = say
        self._next = 0
        self._copy = plan.move_id
        self._copied_at: tuple[int, float] = (0, 0.0)
        self._ready_at = inf
        self._changed = trio.Event()
        self.report = MoveReport()
        coordinator.listen(self._on_change, EVERY_ENTRY)

    def _on_change(self, _touched: set[int]) -> None:
        self._changed.set()

    async def run(self) -> MoveReport:
        """Move the log.

        Raises:
          MoveRefused: the log stays where it is, and the gateways continue with it.
          LogMisconfigured, LogCorrupt, LogMisuse: likewise.
          CoordinatorUnavailable: run it again.
        """
        try:
            await self._move()
        except* (MoveRefused, LogMisconfigured, LogCorrupt, LogMisuse) as refusals:
            await self._coordinator.propose(CancelLogMove(self._plan.move_id))
            # An append of LogMoved that was under way may have been committed. That answer proves
            # the log's end.
            if not self._has_moved:
                self._check_not_moved_by_another()
                raise _first(refusals) from None
        self._fill_in()
        return self.report

    @property
    def _has_moved(self) -> bool:
        return self._state.log_moves.last.move_id == self._plan.move_id

    def _fill_in(self) -> None:
        self.report.sealed_at = self._state.log_moves.sealed_at
        self.report.copied = self._next - self.report.first_copied
        self.report.gateways = len(self._state.gateways.brokers())

    async def _move(self) -> None:
        check_logs(self._source, self._target)
        await self._coordinator.propose(BeginLogMove(self._plan.move_id))
        self._check_not_moved_by_another()
        await self._wait_for_inlined()
        with trio.move_on_after(self._plan.ready_seconds) as waited:
            await self._begin()
        if waited.cancelled_caught:
            raise MoveRefused(
                f"the new log did not take the snapshot in {self._plan.ready_seconds:g} s: give"
                " more time (--timeout), or a faster one"
            )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._copy_on)
            await self._offer_and_seal()
            nursery.cancel_scope.cancel()

    def _check_not_moved_by_another(self) -> None:
        """Check that the source is still the cluster's log.

        The seal of an earlier command may be committed long after that command ended.
        """
        if self._log.moves and not self._has_moved:
            url = without_secrets(self._state.log_moves.last.url)
            raise MoveRefused(f"an earlier move has just moved the log to {url}: begin there")

    async def _wait_for_inlined(self) -> None:
        """Wait until no bytes of records are only in the log: the copy begins with a snapshot.

        Gateways move them to the store within seconds, and add none during a move.
        """
        inlined = self._state.objects.inlined
        if not inlined:
            return
        if not self._state.gateways.brokers():
            raise MoveRefused(
                f"no gateway runs, and {len(inlined)} small writes are in this log only: start a"
                " gateway, which moves them to the object store within seconds, then move the log"
            )
        self._say("waiting until the gateways have moved small writes to the object store")
        with trio.move_on_after(self._plan.ready_seconds):
            while inlined:
                self._check_not_over()
                await self._something_changed()
            return
        raise MoveRefused(
            f"{len(inlined)} small writes are in this log only, and the gateways did not move them"
            f" to the object store in {self._plan.ready_seconds:g} s: see that gateways run and"
            " reach the store, then move the log (they move those of ended gateways, too)"
        )

    async def _begin(self) -> None:
        copy = await patiently(lambda: look_at_copy(self._target))
        if copy is None:
            self._say("writing a snapshot to the new log")
            self._check_not_over()
            snapshot = await encode_state(self._state, as_copy=True)
            await patiently(lambda: begin_copy(self._target, snapshot))
            self._next = snapshot.position + 1
        else:
            if (copy.cluster_id, copy.timeline) != (self._state.cluster_id, self._state.timeline):
                raise in_use(
                    f"it holds a copy of cluster {copy.cluster_id}, timeline {copy.timeline}"
                )
            self._next, self._copy = copy.next_position, copy.copy
        self.report.first_copied = self._next
        self._copied_at = (self._next, trio.current_time())

    # -- copying ----------------------------------------------------------------------------------

    async def _copy_on(self) -> None:
        while True:
            entries = await patiently(lambda: self._source.read(self._next, COPY_BYTES))
            if isinstance(entries, Trimmed):
                raise in_use("it holds the copy of an earlier move, which is too old to continue")
            for each in entries:
                await patiently(partial(put_copy, self._target, each))
                self._next = each.position + 1
                self._changed.set()
            if not entries:
                await patiently(lambda: self._source.wait(self._next - 1, WAIT_SECONDS))

    @property
    def _lag(self) -> int:
        return self._state.position + 1 - self._next

    @property
    def _left_seconds(self) -> float:
        """Return the estimated time to copy the remaining entries, at the speed so far."""
        first, since = self._copied_at
        copied = self._next - first
        return self._lag * (trio.current_time() - since) / copied if copied else inf

    def _is_near(self) -> bool:
        """Return whether the copy is so near the end that gateways soon find the offer in it."""
        return self._lag <= LEVEL_ENTRIES or self._left_seconds <= NEAR_SECONDS

    def _is_level(self) -> bool:
        """Return whether copying the remaining entries takes no longer than writers may wait.

        The copy must hold the offer, by which gateways that complete the copy recognise it.
        """
        move = self._state.log_moves.present
        if move is None or self._next <= move.offered_at:
            return False
        if self._lag <= LEVEL_ENTRIES:
            return True
        now = trio.current_time()
        self._ready_at = min(self._ready_at, now)
        quick = self._left_seconds <= self._plan.stall_seconds
        return quick and now >= self._ready_at + LEVEL_SECONDS

    # -- asking -----------------------------------------------------------------------------------

    async def _offer_and_seal(self) -> None:
        self._say("copying, until the new log is nearly level")
        with trio.move_on_after(self._plan.ready_seconds):
            while not self._is_near():
                self._check_not_over()
                await self._something_changed()
            await self._offer()
            while not await self._sealed():
                await self._something_changed()
            return
        raise MoveRefused(self._why_not())

    async def _offer(self) -> None:
        self._say("asking the gateways whether they can use the new log")
        # Every reader of the log or of a copy sees this URL, and the proposal may be forwarded.
        offer = OfferLog(self._plan.move_id, without_secrets(self._plan.url), self._copy)
        _check_step(await self._coordinator.propose(offer))

    async def _sealed(self) -> bool:
        self._check_not_over()
        self._check_answers()
        if self._silent() or not self._is_level():
            return False
        self.report.stall_entries = self._lag + 1
        step = await self._coordinator.propose(SealLog(self._plan.move_id))
        _check_step(step)
        return step is MoveStep.DONE

    def _check_not_over(self) -> None:
        moves = self._state.log_moves
        ids = {moves.last.move_id, "" if moves.present is None else moves.present.move_id}
        if self._plan.move_id not in ids:
            _check_step(MoveStep.OVER)

    async def _something_changed(self) -> None:
        with trio.move_on_after(WAIT_SECONDS):
            await self._changed.wait()
        self._changed = trio.Event()

    def _silent(self) -> list[Gateway]:
        move = self._state.log_moves.present
        answers = {} if move is None else move.answers
        return [each for each in self._state.gateways.brokers() if each.incarnation not in answers]

    def _check_answers(self) -> None:
        move = self._state.log_moves.present
        answers = {} if move is None else move.answers
        complaints = [
            f"gateway {each.node_id}: {answers[each.incarnation]}"
            for each in self._state.gateways.brokers()
            if answers.get(each.incarnation)
        ]
        if complaints:
            raise MoveRefused(
                "not every gateway can use the new log, so all stay with the old one: "
                + "; ".join(complaints)
                + self._what_is_not_told()
            )

    def _what_is_not_told(self) -> str:
        if without_secrets(self._plan.url) == self._plan.url:
            return ""
        return (
            ". The password of the new log is not written to the present one: give gateways the"
            " whole URL beforehand, as metadata.log.next"
        )

    def _why_not(self) -> str:
        move = self._state.log_moves.present
        silent = self._silent()
        if silent and move is not None and move.offered_at:
            names = ", ".join(str(each.node_id) for each in silent)
            return (
                f"these gateways did not answer in {self._plan.ready_seconds:g} s, so all stay with"
                f" the old log: {names}; are they of an older release?"
            )
        return (
            f"the new log is too slow: after {self._plan.ready_seconds:g} s, {self._lag} entries"
            " were still to be copied; move when less is written, or to a faster one"
        )


def _check_step(step: MoveStep) -> None:
    if step is MoveStep.OVER:
        raise MoveRefused(f"the log stays where it is: {MoveStep.OVER.value}")


def check_logs(source: MetadataLog, target: MetadataLog) -> None:
    """Check that the source can be moved to the target.

    Raises:
      MoveRefused: see above.
    """
    if not source.capabilities.can_append or not target.capabilities.can_append:
        raise MoveRefused("give the addresses of the logs themselves, not forward:")
    if target.capabilities.max_entry_bytes < source.capabilities.max_entry_bytes:
        raise MoveRefused(
            f"the new log takes entries of {target.capabilities.max_entry_bytes} bytes only, the"
            f" old one of {source.capabilities.max_entry_bytes}"
        )


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    [first, *_] = group.exceptions
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
