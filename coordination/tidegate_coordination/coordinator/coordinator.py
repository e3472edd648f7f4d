"""The coordinator: proposals in, events appended, answers out.

    proposals --decide--> events --append at position + 1--> folded --> answers

One task (`run`) does it all, so nothing needs a lock: it takes what waits, decides it against the
replica, appends one entry, folds it, and answers.  What arrives meanwhile travels in the next
entry, so the busier the gateway, the larger the entries.

- A lost race (CONFLICT) means the replica was behind: read the tail, fold it, decide again.  What
  its caller has withdrawn meanwhile ends there: the caller was told that the log did not answer,
  and may have gone on through another gateway (decision 22).
- An append whose outcome is unknown is repeated with the same bytes until the log says what became
  of it.  The nonce tells our entry from another's at the same position.
- An answer without events (a refusal, a duplicate) is given only once the replica is proven to have
  been at the end of the log after the proposal came: by a successful append, or by a read.
- `catch_up` is the same proof without a proposal
  (docs/architecture.md, "Reading to the log's end").

Randomness (nonces) and the wall clock are passed in.  Waiting callers have a deadline; past it they
get CoordinatorUnavailable: what they proposed may or may not come true.  It comes sooner while the
log is away, for a commit that waits holds up the heartbeats behind it on its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, Generic, TypeAlias, TypeVar

import trio

from ..events.entries import decode_entry, encode_entry, entry_nonce
from ..events.metadata_versions import LEVELS
from ..log.access import FIRST_RETRY_SECONDS, GatewayFenced, LogAccess
from ..log.metadata_log import AppendResult, LogCorrupt, LogEntry, LogUnavailable, MetadataLog
from ..logs.movable import MovableLog
from ..rules.gateways import Leave, Renew
from ..rules.numbered import TOO_LATE, WITHDRAWN, Numbered
from ..rules.proposal import Proposal
from ..state.cluster import ClusterState
from .drafts import CannotCommit, Draft
from .standstill import Standstill

Answer = TypeVar("Answer")

# Then what else waits has its turn.
TAIL_READS = 8
WATCH_SECONDS = 1.0
NONCE_BYTES = 12
# Of a lease: renewals are at least this long on their way before a log is taken for away.
CUT_OFF_SHARE = 2 / 3


class CoordinatorUnavailable(Exception):
    """The metadata log did not answer in time; the outcome is unknown.

    Answer a retriable error, or close the connection; never guess.
    """


class ProposalFailed(Exception):
    """The proposal could not be decided, or is too large for an entry.  Nothing came of it."""


Failure: TypeAlias = ProposalFailed | CoordinatorUnavailable
"""Why a proposal has no answer: nothing came of it, or nobody will ever know what did."""


@dataclass(eq=False, slots=True)
class Waiting(Generic[Answer]):
    """A proposal on its way, and who wants its answer.

    is_withdrawn: its caller waits no more.  before_ms: nothing comes of it once log time is behind
    that; 0 for no limit.
    """

    proposal: Proposal[Answer]
    deliver: Callable[[Answer], None]
    fail: Callable[[Failure], None]
    is_withdrawn: bool = False
    before_ms: int = 0


class Coordinator:
    """One gateway's door to the metadata log.

    Args:
      state: already holds the log up to state.position.
      wall_clock: seconds since the epoch; its readings reach the log as entry clocks only.
      deadline_seconds, away_seconds: how long waits last, and those for a log that is silent.
    """

    def __init__(
        self,
        log: MetadataLog,
        state: ClusterState,
        *,
        rng: Random,
        wall_clock: Callable[[], float],
        deadline_seconds: float = 30.0,
        away_seconds: float = inf,
    ) -> None:
        self._log = log
        self._access = LogAccess(log, lambda: self.is_cut_off)
        self.state = state
        self.incarnation = 0
        self._rng = rng
        self._wall_clock = wall_clock
        self._deadline_seconds = deadline_seconds
        self._away_seconds = away_seconds
        self._max_entry_bytes = log.capabilities.max_entry_bytes
        self._queue: deque[Waiting[Any]] = deque()
        self._barriers: list[trio.Event] = []
        self._log_grew = False
        self._work = trio.Event()
        self._is_serving = False
        self._round_done = trio.Event()
        self._listeners: list[Callable[[set[int]], None]] = []
        self._is_leaving = False
        self.standstill = Standstill()
        self.lost_conflicts = 0

    @property
    def max_entry_bytes(self) -> int:
        """Return what one entry may hold, all of its proposals together."""
        return self._max_entry_bytes

    def listen(self, on_change: Callable[[set[int]], None]) -> None:
        """Call on_change with the touched partition numbers after every fold."""
        self._listeners.append(on_change)

    def submit(
        self,
        proposal: Proposal[Answer],
        deliver: Callable[[Answer], None],
        fail: Callable[[Failure], None],
    ) -> None:
        """Queue a proposal; deliver its answer from the coordinator's task, in order of submits.

        The callbacks must not wait and must not raise.
        """
        self._enqueue(Waiting(proposal, deliver, fail))

    def submit_here(
        self,
        proposal: Proposal[Answer],
        deliver: Callable[[Answer], None],
        fail: Callable[[Failure], None],
    ) -> Waiting[Answer]:
        """Do as submit(), and see that it is this gateway that decides and appends."""
        waiting = Waiting(proposal, deliver, fail)
        self._decide_here(waiting)
        return waiting

    def withdraw_here(self, waiting: Waiting[Any]) -> bool:
        """Take back what submit_here() returned; False while it is in the entry under way.

        If nothing comes of that entry it fails, unless waiting.is_withdrawn is unset before.
        """
        waiting.is_withdrawn = True
        return self._forget(waiting)

    def _enqueue(self, waiting: Waiting[Any]) -> None:
        self._decide_here(waiting)

    def _decide_here(self, waiting: Waiting[Any]) -> None:
        self._queue.append(waiting)
        self._work.set()

    def _withdraw(self, waiting: Waiting[Any]) -> None:
        """See that nothing more comes of a proposal than what is under way already."""
        waiting.is_withdrawn = True
        self._forget(waiting)

    def _forget(self, waiting: Waiting[Any]) -> bool:
        """Take a proposal out of the queue; False when it is in the entry under way."""
        try:
            self._queue.remove(waiting)
        except ValueError:
            return False
        return True

    async def propose(self, proposal: Proposal[Answer], *, expires: bool = False) -> Answer:
        """Make a proposal true and return its answer.

        expires: it has a deadline in log time, see _deadline_ms(), behind which it fails with
        TOO_LATE.  Log time leaps where clocks are wrong, so the caller must bear that.

        Raises:
          CoordinatorUnavailable: no answer in time, or none that can be read; the outcome is
            unknown.  Or this gateway has left the cluster.
          ProposalFailed: nothing came of it.
        """
        answers: list[Answer] = []
        failures: list[Failure] = []
        done = trio.Event()

        def deliver(answer: Answer) -> None:
            answers.append(answer)
            done.set()

        def fail(failure: Failure) -> None:
            failures.append(failure)
            done.set()

        waiting = Waiting(proposal, deliver, fail, before_ms=self._deadline_ms() if expires else 0)
        self._enqueue(waiting)
        await self._patiently(done, lambda: self._withdraw(waiting))
        if failures and self.has_left:
            # Nothing came of it, but others do what this gateway can do no more.
            raise CoordinatorUnavailable(str(failures[0])) from failures[0]
        if failures:
            raise failures[0]
        if not answers:
            raise CoordinatorUnavailable("the metadata log did not answer in time")
        return answers[0]

    def _deadline_ms(self) -> int:
        """Return a log time at which no caller waits any more for what is proposed now.

        By a lease later than the deadline: log time may rise by as much at once, when the clocks of
        gateways that were quiet for a while reach the log.
        """
        if not self.incarnation:
            return 0
        clock_ms = int(self._wall_clock() * 1000)
        now_ms = self.state.log_time_after(self.incarnation, clock_ms)
        return now_ms + int(self._deadline_seconds * 1000) + self.state.gateways.lease_ms

    async def _patiently(self, done: trio.Event, withdraw: Callable[[], None]) -> None:
        """Wait for an event until the deadline, or as long as the log is not away.

        While the log is away, what nobody waits for any more must not pile up in the queue.
        """
        deadline = trio.current_time() + self._deadline_seconds
        try:
            while not done.is_set() and (now := trio.current_time()) < deadline:
                silent_since = self._silent_since
                away_at = self._away_seconds + (now if silent_since is None else silent_since)
                if now >= away_at:
                    return
                with trio.move_on_at(min(deadline, away_at)):
                    await done.wait()
        finally:
            if not done.is_set():
                withdraw()

    @property
    def _silent_since(self) -> float | None:
        """Return since when what was asked is not answered."""
        return self._access.asked_at

    @property
    def log_answered_at(self) -> float:
        """Return when the metadata log answered last, on Trio's clock; see LogAccess."""
        return self._access.answered_at

    @property
    def _unsure_since(self) -> float | None:
        """Return since when the log is asked, and has not answered; see LogAccess."""
        return self._access.unsure_since

    @property
    def is_cut_off(self) -> bool:
        """Tell whether others may have ended this gateway's lease without its knowing.

        That is so when the log has not answered for as long, if others are there to serve, and
        until its end was seen then.  A log that is slow, but answers, is another matter: who
        takes it for away hangs up its clients again and again.
        """
        unsure_since = self._unsure_since
        if unsure_since is None or not self.incarnation:
            return False
        gateways, now = self.state.gateways, trio.current_time()
        lease_seconds = gateways.lease_ms / 1000
        if now < unsure_since + CUT_OFF_SHARE * lease_seconds:
            return False
        is_over = now >= self.log_answered_at + lease_seconds
        return is_over and gateways.has_others(self.incarnation)

    async def catch_up(self) -> None:
        """Wait until the replica holds everything that was committed before this call.

        Raises:
          CoordinatorUnavailable: the log could not be read in time.
        """
        reached = trio.Event()
        self._barriers.append(reached)
        self._work.set()

        def withdraw() -> None:
            with suppress(ValueError):
                self._barriers.remove(reached)

        await self._patiently(reached, withdraw)
        if not reached.is_set():
            raise CoordinatorUnavailable("the metadata log could not be read in time")

    async def leave(self) -> None:
        """End this incarnation: the last thing to be done here.

        Raises:
          CoordinatorUnavailable: nobody was told; the lease will see to it.
        """
        self._is_leaving = True
        await self.propose(Leave(self.incarnation))

    async def run(self) -> None:
        """Serve proposals and barriers, and follow the log; forever.

        Raises:
          GatewayFenced: others ended this incarnation.
          StateBroken, UnreadableEntry, LogCorrupt: log and state do not agree; stop.
          ReleaseTooOld: see there.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_log)
            nursery.start_soon(self.standstill.watch)
            while True:
                await self._work.wait()
                self._work = trio.Event()
                self._is_serving = True
                while self._queue or self._barriers or self._log_grew:
                    await self._serve_once()
                self._is_serving = False
                round_done, self._round_done = self._round_done, trio.Event()
                round_done.set()

    async def _serve_once(self) -> None:
        """Commit what waits, or read the tail: either proves to be at the log's end.

        Where nobody asks for that, one read is enough to follow the log: the next wait tells of
        more.
        """
        barriers, self._barriers = self._barriers, []
        grew, self._log_grew = self._log_grew, False
        is_proven = True
        if self._queue:
            if grew:  # an append would only lose
                await self._read_on()
            is_proven = await self._commit_waiting()
        elif barriers:
            is_proven = await self._read_tail()
        elif self.is_cut_off:
            await self._read_tail()
        else:
            await self._read_on()
        if is_proven:
            _set_all(barriers)
        else:
            self._prove_otherwise(barriers)

    def _prove_otherwise(self, barriers: list[trio.Event]) -> None:
        """Have an entry written: it stands behind all there is, and so does who has folded it.

        For where the log grows faster than it can be read to its end.
        """
        if barriers and self.incarnation and not self.has_left:
            self._enqueue(
                Waiting(Renew(), lambda _: _set_all(barriers), lambda _: self._put_back(barriers))
            )
        else:
            self._put_back(barriers)

    def _put_back(self, barriers: list[trio.Event]) -> None:
        self._barriers[:0] = barriers
        self._work.set()

    async def _watch_log(self) -> None:
        """Notice what others append.

        While the loop serves, the log may grow by its own appends: it looks again afterwards.
        """
        while True:
            position = self.state.position
            try:
                await self._log.wait(position, WATCH_SECONDS)
            except LogUnavailable:
                await trio.sleep(FIRST_RETRY_SECONDS)
            if not self._is_serving:
                if self.state.position != position:
                    continue
                self._log_grew = True
                self._work.set()
            await self._round_done.wait()

    async def _commit_waiting(self) -> bool:
        """Decide, append, fold and answer as much as one entry holds.

        False when nothing of that is left to do here, and where the log ends is not known.
        """
        while self._queue:
            draft = self._draft()
            if draft.events:
                done = await self._append(draft)
                self.lost_conflicts += not done
            else:
                done = not await self._read_on()
            if done:
                for waiting, answer in draft.answers:
                    waiting.deliver(answer)
                return True
            self._queue_again(draft)
            self._note_lost_race()
        return False

    def _queue_again(self, lost: Draft[Waiting[Any]]) -> None:
        """Have decided anew what is still wanted of an entry of which certainly nothing came."""
        for waiting, _ in reversed(lost.answers):
            if waiting.is_withdrawn:
                waiting.fail(ProposalFailed(WITHDRAWN))
            else:
                self._queue.appendleft(waiting)

    def _note_lost_race(self) -> None:
        """All that waits is in the queue, and has to be decided anew."""

    def _draft(self) -> Draft[Waiting[Any]]:
        """Decide proposals from the queue's head for as long as they may share an entry."""
        clock_ms = int(self._wall_clock() * 1000)
        log_time_ms = self.state.log_time_after(self.incarnation, clock_ms)
        draft: Draft[Waiting[Any]] = Draft(
            self.state,
            self.incarnation,
            clock_ms,
            max_bytes=self._max_entry_bytes,
            may_write=not self.has_left,
        )
        while self._queue and draft.may_hold(self._queue[0].proposal):
            waiting = self._queue.popleft()
            if waiting.before_ms and log_time_ms > waiting.before_ms:
                waiting.fail(ProposalFailed(TOO_LATE))
                continue
            try:
                if not draft.add(waiting.proposal, waiting):
                    self._queue.appendleft(waiting)
                    break
            except CannotCommit as error:
                self._fail(waiting, str(error))
                break
        return draft

    def _fail(self, waiting: Waiting[Any], text: str) -> None:
        """Tell that nothing comes of a proposal; where copies of it may wait elsewhere, keep that.

        Else a copy could come true after its author was told that nothing did.
        """
        proposal = waiting.proposal
        if isinstance(proposal, Numbered) and proposal.keeps_failures and not self.has_left:
            waiting.proposal = proposal.failing(text)
            self._queue.appendleft(waiting)
        else:
            waiting.fail(ProposalFailed(text))

    async def _append(self, draft: Draft[Waiting[Any]]) -> bool:
        """Append and fold the draft; False when another entry took the position."""
        position = self.state.position + 1
        nonce = self._rng.randbytes(NONCE_BYTES)
        uptime_ms = int(trio.current_time() * 1000)
        payload = encode_entry(
            nonce,
            self.incarnation,
            draft.clock_ms,
            draft.events,
            uptime_ms,
            # All who append at this position have folded all before it, so they agree on this.
            entry_format=LEVELS[self.state.metadata_version].entry_format,
            position=position,
        )
        if await self._access.append(position, payload) is AppendResult.CONFLICT:
            winners = await self._access.read(position)
            if not winners:
                raise LogCorrupt(f"position {position} was taken, and then gone")
            # The position may hold this very entry: an earlier attempt whose answer was lost, here
            # or inside the log's own client.
            if not self._is_own(winners[0], nonce):
                self._fold(winners)
                return False
            if winners[0].payload != payload:
                raise LogCorrupt(
                    f"the log holds other bytes at {position} than were appended there"
                )
            self._fold(winners)  # what came behind it may have ended this incarnation
        else:
            self._fold([LogEntry(position, payload)])
        self._note_won_race()
        return True

    def _note_won_race(self) -> None:
        """An entry of this gateway took its position."""

    @staticmethod
    def _is_own(winner: LogEntry, nonce: bytes) -> bool:
        return entry_nonce(winner.payload) == nonce

    async def _read_tail(self) -> bool:
        """Fold what there is, up to the log's end; False when that was not reached soon."""
        for _ in range(TAIL_READS):
            if not await self._read_on():
                return True
        return False

    async def _read_on(self) -> bool:
        """Fold what one read gives; tell if that was anything."""
        entries = await self._access.read(self.state.position + 1)
        if entries:
            self._fold(entries)
        return bool(entries)

    def _fold(self, entries: list[LogEntry]) -> None:
        for each in entries:
            entry = decode_entry(each.payload, each.position, self.state.entry_formats)
            self.state.apply(each.position, entry)
        if self.has_left and not self._is_leaving:
            raise GatewayFenced(f"incarnation {self.incarnation} was ended by another gateway")
        if not isinstance(self._log, MovableLog):
            self._see_that_it_goes_on()
        touched = set(self.state.touched)
        self.state.touched.clear()
        for listener in self._listeners:
            listener(touched)

    def _see_that_it_goes_on(self) -> None:
        """Append nothing to a log that was moved away."""
        if self.state.position == self.state.log_moves.sealed_at:
            raise GatewayFenced("its metadata log was moved to another one")

    @property
    def has_left(self) -> bool:
        """Tell whether this incarnation is over: no entry of it may follow, or nobody can fold it.

        That is so between the entry of leave() and the end of the process, too.
        """
        return bool(self.incarnation) and not self.state.gateways.is_live(self.incarnation)


def _set_all(barriers: list[trio.Event]) -> None:
    for each in barriers:
        each.set()
