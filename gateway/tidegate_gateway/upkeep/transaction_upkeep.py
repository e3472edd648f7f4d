"""Aborts transactions that are open for too long, and removes transactional ids that have expired.

The housekeeper does this; while no gateway holds that claim, every gateway does.  A gateway does it
only if its clock is good, since timeouts are counted in log time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog
import trio

from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_coordination.rules.transactions.ending import AbortTimedOut, is_overdue
from tidegate_coordination.rules.transactions.expiring import ExpireTransactionalIds

from ..transactions.steps import TransactionSteps
from .upkeep import Upkeep

_log = structlog.get_logger("tidegate.transactions")


@dataclass(frozen=True, slots=True)
class TransactionUpkeep:
    """See the module's head.

    may_work: see Housekeeper.may_expire_here.
    """

    steps: TransactionSteps
    cluster: ClusterSettings
    may_work: Callable[[], bool]
    upkeep: Upkeep
    abort_seconds: float
    expire_seconds: float

    async def run(self) -> None:
        """Abort and expire, each at its interval; forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._abort_overdue)
            nursery.start_soon(self._expire_ids)

    async def _abort_overdue(self) -> None:
        while True:
            await trio.sleep(self.abort_seconds)
            if self.may_work():
                await self.upkeep.attempt("look for overdue transactions", self.abort_once)

    async def abort_once(self) -> None:
        """Abort all transactions that are overdue now."""
        for name in self._overdue():
            step = partial(self._abort, name)
            await self.upkeep.attempt("abort an overdue transaction", step, transactional_id=name)

    def _overdue(self) -> list[str]:
        state = self.steps.coordinator.state
        return [
            name
            for name in state.transactions.open_ids()
            if (row := state.transactions.get(name)) is not None
            and is_overdue(row, state.log_time_ms)
        ]

    async def _abort(self, name: str) -> None:
        row = self.steps.coordinator.state.transactions.get(name)
        answer = await self.steps.with_spare_id(partial(AbortTimedOut, name))
        if answer.refusal is None and row is not None:
            _log.info(
                "a transaction timed out and is aborted",
                transactional_id=name,
                producer_id=row.producer_id,
                timeout_ms=row.timeout_ms,
            )

    async def _expire_ids(self) -> None:
        while True:
            await trio.sleep(self.expire_seconds)
            if self.may_work():
                await self.upkeep.attempt("expire transactional ids", self.expire_once)

    async def expire_once(self) -> None:
        """Remove all transactional ids that have expired."""
        proposal = ExpireTransactionalIds(self.cluster.time("transactional.id.expiration.ms"))
        state = self.steps.coordinator.state
        before_ms = state.log_time_ms - proposal.expiration_ms
        if next(iter(state.transactions.idle_since(before_ms)), None) is None:
            return
        while await self.steps.coordinator.propose(proposal):
            pass
