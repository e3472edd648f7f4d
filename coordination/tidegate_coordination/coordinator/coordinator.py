"""The coordinator: proposals in, events appended, answers out.

    proposals --decide--> events --append at position + 1--> folded --> answers

One task (loop.py) does it all, so nothing needs a lock: it takes what is queued, decides it against
the replica, appends one entry, folds it, and answers (committer.py).  Proposals that arrive
meanwhile travel in the next entry, so the busier the gateway, the larger the entries.

- A lost race (CONFLICT) means that the replica had not read to the log's end: read the tail, fold
  it, decide again.  A proposal that its caller has withdrawn meanwhile fails: the caller got the
  answer that the log is silent, and may have turned to another gateway (decision 22).
- An append whose outcome is unknown is repeated with the same bytes until the log tells the
  outcome.  The nonce distinguishes this gateway's entry from another's at the same position.
- An answer without events (a refusal, a duplicate) is given only once the replica is proven to have
  been at the log's end after the proposal arrived: by a successful append, or by a read.
- `catch_up` is the same proof without a proposal (barriers.py;
  docs/architecture.md, "Reading to the log's end").
- A route may have another gateway decide the proposals (route.py, forwarding/).

Randomness (nonces) and the wall clock are passed in.  Waiting callers have a deadline; past it they
get CoordinatorUnavailable, and the outcome of their proposals is unknown.  While the log is silent
the deadline is shorter, for a commit that waits delays the heartbeats after it on its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import inf
from random import Random
from typing import Any, Final, TypeVar

import trio

from tidegate_runtime.histograms import Histogram

from ..log.metadata_log import LogCapabilities, MetadataLog
from ..rules.gateways import Leave
from ..rules.proposal import Proposal
from ..rules.security.permitted import RIGHTS_CHANGED
from ..state.changes import Tables
from ..state.cluster import ClusterState
from .barriers import Barriers
from .decider import Decider, make_decider
from .liveness import Liveness, Patience
from .loop import Loop
from .permits import PERMIT
from .replica import OnChange
from .route import DecidesHere, Route
from .standstill import Standstill
from .waiting import CoordinatorUnavailable, Failure, ProposalFailed, Waiting

__all__ = ["Coordinator", "CoordinatorUnavailable", "Failure", "ProposalFailed", "Waiting"]

Answer = TypeVar("Answer")

MAX_RENEWALS: Final = 8
"""So often is a proposal made again since ACLs changed; a client may ask again after that."""
RENEWAL_SECONDS: Final = 5.0
"""Later it is not made again: clients wait as long, and may then turn to another gateway."""


class Coordinator:
    """One gateway's access to the metadata log.

    Args:
      state: already holds the log up to state.position.
      wall_clock: seconds since the epoch; its readings reach the log as entry clocks only.
      deadline_seconds, away_seconds: how long callers wait, and how long while the log is silent.
      route: makes the route of this gateway's proposals.
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
        route: Callable[[Decider], Route] = DecidesHere,
    ) -> None:
        self.state = state
        self.standstill = Standstill()
        self._decider = make_decider(
            log, state, lambda: self.is_cut_off, rng=rng, wall_clock=wall_clock
        )
        self._replica = self._decider.replica
        self._queue = self._decider.queue
        self.route = route(self._decider)
        self._liveness = Liveness(self._replica, self.route)
        self._patience = Patience(self._liveness, deadline_seconds, away_seconds)
        self._barriers = Barriers(self._decider, self.route, self._patience)
        self._loop = Loop(self._decider, self._barriers, self._liveness, self.standstill)
        self.max_entry_bytes = log.capabilities.max_entry_bytes
        self.typical_append_seconds = log.capabilities.typical_append_seconds

    @property
    def log_capabilities(self) -> LogCapabilities:
        """Return the capabilities of the present log."""
        return self._decider.log.capabilities

    @property
    def incarnation(self) -> int:
        """This gateway's incarnation; 0 before it is registered."""
        return self._replica.incarnation

    @incarnation.setter
    def incarnation(self, incarnation: int) -> None:
        self._replica.incarnation = incarnation

    @property
    def has_left(self) -> bool:
        """Whether this gateway's incarnation has ended; see Replica."""
        return self._replica.has_left

    @property
    def is_cut_off(self) -> bool:
        """Whether other gateways may have ended this gateway's lease; see Liveness."""
        return self._liveness.is_cut_off

    @property
    def is_stale(self) -> bool:
        """Whether clients of records should turn to other gateways; see Liveness."""
        return self._liveness.is_stale

    @property
    def stale_seconds(self) -> float:
        """See Liveness."""
        return self._liveness.stale_seconds

    def limit_staleness(self, seconds: float) -> None:
        """Have clients of records turn to other gateways before the lease may have ended."""
        self._liveness.most_stale_seconds = seconds

    @property
    def log_answered_at(self) -> float:
        """When the metadata log last answered, on Trio's clock; see LogAccess."""
        return self._replica.access.answered_at

    @property
    def append_times(self) -> Histogram:
        """How long this gateway's appends to the log took; see LogAccess."""
        return self._replica.access.append_times

    @property
    def lost_conflicts(self) -> int:
        """How many appends met an entry of another gateway."""
        return self._decider.committer.lost_conflicts

    def listen(self, on_change: OnChange, tables: Tables) -> None:
        """Call on_change after folds that change one of the tables; see Replica."""
        self._replica.listen(on_change, tables)

    def listening(self, on_change: OnChange, tables: Tables) -> AbstractContextManager[None]:
        """Listen until the block ends; see Replica."""
        return self._replica.listening(on_change, tables)

    def submit(
        self,
        proposal: Proposal[Answer],
        deliver: Callable[[Answer], None],
        fail: Callable[[Failure], None],
    ) -> None:
        """Queue a proposal; deliver its answer from the coordinator's task, in order of submits.

        The callbacks must not wait and must not raise.
        """
        self.route.take(Waiting(proposal, deliver, fail))

    def submit_here(
        self,
        proposal: Proposal[Answer],
        deliver: Callable[[Answer], None],
        fail: Callable[[Failure], None],
    ) -> Waiting[Answer]:
        """Do as submit() for a proposal of another gateway, which this gateway decides itself."""
        waiting = Waiting(proposal, deliver, fail)
        self.route.take_here(waiting)
        return waiting

    def withdraw_here(self, waiting: Waiting[Any]) -> bool:
        """Withdraw what submit_here() returned; False while it is in the entry under way.

        If that entry is not appended, the proposal fails, unless waiting.is_withdrawn is unset
        before.
        """
        return self._queue.withdraw(waiting)

    async def propose(self, proposal: Proposal[Answer], *, expires: bool = False) -> Answer:
        """Have a proposal decided and appended; return its answer.

        expires: the proposal has a deadline in log time, see _deadline_ms(), after which it fails
        with TOO_LATE.  Log time jumps if clocks are wrong, so the caller must handle that failure
        at any time.

        Raises:
          CoordinatorUnavailable: no answer in time, or an unreadable one; the outcome is unknown.
            Also if this gateway has left the cluster, or the client has lost its right
            (permits.py).
          ProposalFailed: the proposal changed nothing.
        """
        before_ms = self._deadline_ms() if expires else 0
        permit = PERMIT.get()
        if permit is None:
            return await self._propose(proposal, before_ms, 0)
        until = trio.current_time() + RENEWAL_SECONDS
        for _ in range(MAX_RENEWALS):
            try:
                return await self._propose(proposal, before_ms, permit.as_of)
            except ProposalFailed as failure:
                if str(failure) != RIGHTS_CHANGED:
                    raise
            await self.catch_up()
            is_late = trio.current_time() > until or self.standstill.is_recent
            if is_late or not permit.renew(self.state.position):
                break
        raise CoordinatorUnavailable("nothing was changed: rights have changed meanwhile")

    async def _propose(
        self, proposal: Proposal[Answer], before_ms: int, rights_as_of: int
    ) -> Answer:
        answers: list[Answer] = []
        failures: list[Failure] = []
        done = trio.Event()

        def deliver(answer: Answer) -> None:
            answers.append(answer)
            done.set()

        def fail(failure: Failure) -> None:
            failures.append(failure)
            done.set()

        waiting = Waiting(proposal, deliver, fail, before_ms=before_ms, rights_as_of=rights_as_of)
        self.route.take(waiting)
        await self._patience.wait(done, lambda: self.route.withdraw(waiting))
        if failures and self.has_left:
            # Another gateway can still accept the proposal, which has changed nothing.
            raise CoordinatorUnavailable(str(failures[0])) from failures[0]
        if failures:
            raise failures[0]
        if not answers:
            raise CoordinatorUnavailable("the metadata log did not answer in time")
        return answers[0]

    def _deadline_ms(self) -> int:
        """Return a log time after which no caller waits for a proposal that is made now.

        This time is one lease later than the caller's deadline.  If the clocks of gateways that
        were quiet for a while reach the log, log time may rise by a lease at once.
        """
        if not self.incarnation:
            return 0
        now_ms = self.state.log_time_after(self.incarnation, self._decider.clock_ms())
        deadline_ms = int(self._patience.deadline_seconds * 1000)
        return now_ms + deadline_ms + self.state.gateways.lease_ms

    async def catch_up(self) -> None:
        """Wait until the replica holds all entries that were committed before this call.

        Raises:
          CoordinatorUnavailable: the log could not be read in time.
        """
        await self._barriers.catch_up()

    async def leave(self) -> None:
        """End this incarnation: the last call of a coordinator.

        Raises:
          CoordinatorUnavailable: the leave entry may not be written; then the lease expires.
        """
        self._replica.is_leaving = True
        await self.propose(Leave(self.incarnation))

    async def run(self) -> None:
        """Serve proposals and barriers, and follow the log; forever.

        Raises:
          GatewayFenced: another gateway ended this incarnation.
          StateBroken, UnreadableEntry, LogCorrupt: log and state do not agree; stop.
          ReleaseTooOld: see there.
        """
        await self.route.run(self._loop.run)
