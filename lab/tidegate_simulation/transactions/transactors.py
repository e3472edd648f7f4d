"""Clients that do one transaction after another, each in its own way.

Twins share a transactional id, so each fences the other.  A Deserter leaves transactions open until
they time out.  A Dawdler takes longer within a transaction than gateways keep producer states.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import offset_fetch

from ..clients.client import Disconnected
from ..clients.fleeting import Lives
from ..clients.workload import Key, Workload
from ..members.groups import GroupClient
from ..plans.expiry_plan import OFFSETS, RETENTION_SECONDS
from .ledger import NOTHING, Ledger
from .steps import Step
from .transactional_producer import TransactionalProducer

_LATE_SHARE: Final = 0.1
_PLAIN_SHARE: Final = 0.3
_STAGE_SHARE: Final = 0.5
_VANISHING_SHARE: Final = 0.4
_AGAIN_SHARE: Final = 0.3
_SLOW_SHARE: Final = 0.3
_SLOW_LEASES: Final = 2.0


class Transactor(TransactionalProducer):
    """See the module's head.

    lives: those of a topic that another client deletes, and to which this client also writes.
    """

    leave_share = 0.08  # of transactions that are left open

    def __init__(
        self,
        workload: Workload,
        name: str,
        ledger: Ledger,
        *,
        is_new: bool,
        lives: Lives | None = None,
    ) -> None:
        super().__init__(workload, name, ledger, is_new=is_new)
        self._group = GroupClient(self.client, ledger.group_id)
        self._key = ledger.key
        self._lives = lives

    async def run(self) -> None:
        """Live until no operation is left; then abort what may be open."""
        while self.workload.operations_left > 0:
            if await self.begin_life():
                await self._live()
            await self.client.pause(2.0)
        await self._leave()
        self.close()

    async def _leave(self) -> None:
        await self.tidy_up()
        await self._look_at_offset()

    async def _live(self) -> None:
        while self.workload.take():
            if await self.transact() is Step.OVER:
                return
            await self.client.pause(self.rng.choice((0.1, 2.0)))

    def _choose(self) -> Key:
        lives = self._lives
        if lives is not None and lives.keys and self.rng.random() < _VANISHING_SHARE:
            return self.rng.choice(lives.keys)
        return self.rng.choice(self.workload.keys)

    def may_vanish(self, key: Key) -> bool:
        """See TransactionalProducer."""
        lives = self._lives
        return lives is not None and (key in lives.keys or key in lives.former)

    def has_vanished(self, key: Key) -> bool:
        """See TransactionalProducer."""
        return self._lives is not None and key in self._lives.former

    async def transact(self) -> Step:
        """Do one transaction; OVER: its end is unknown, or this client is fenced."""
        self.begin()
        step = await self._fill()
        if step is Step.OVER or self.rng.random() < self.leave_share:
            return Step.OVER
        if step is Step.MUST_ABORT:
            return await self._abort()
        step = await self.end(committed=self.rng.random() < 0.75)
        if step is Step.DONE:
            await self._look_at_offset()
        return step

    async def _abort(self) -> Step:
        """Abort after an error.

        The sequence numbers of refused batches are missing, so a new epoch is needed, which begins
        at zero.
        """
        step = await self.end(committed=False)
        if self.is_new or step is Step.OVER:
            return step
        goes_on = self.rng.random() < 0.5 and await self.begin_life(goes_on=True)
        return Step.DONE if goes_on else Step.OVER

    async def _fill(self) -> Step:
        """Write batches, and perhaps stage an offset, first or last."""
        stages, is_first = self.rng.random() < _STAGE_SHARE, self.rng.random() < 0.3
        step = await self._stage() if stages and is_first else Step.DONE
        for count in range(self.rng.randint(1, 4)):
            if step is Step.DONE:
                step = await self.write(self._choose())
            if count == 0 and self.rng.random() < _LATE_SHARE:
                await self.end_the_last_again()
        return await self._stage() if stages and not is_first and step is Step.DONE else step

    # -- offsets ---------------------------------------------------------------------------------

    async def _stage(self) -> Step:
        """Stage an offset; at times wait long enough for another gateway to take over the group.

        At times then commit a later offset: outside of the transaction, or as part of it.
        """
        step = await self.stage(self._group, self._key, self.ledger.next_offset())
        if self.rng.random() < _SLOW_SHARE:
            lease_seconds = int(self.workload.world.settings["lease.ms"]) / 1000
            await trio.sleep(self.rng.random() * _SLOW_LEASES * lease_seconds)
            await self._commit_elsewhere()
        if step is Step.DONE and self.rng.random() < _PLAIN_SHARE:
            await self._commit_plainly()
        elif step is Step.DONE and self.rng.random() < _AGAIN_SHARE:
            step = await self.stage(self._group, self._key, self.ledger.next_offset())
        return step

    async def _commit_elsewhere(self) -> None:
        """Commit an offset of another partition, so that some gateway serves the group."""
        others = [key for key in self.workload.keys if key != self._key]
        with suppress(Disconnected):
            await self._group.commit(self.rng.choice(others), self.rng.randint(1, 1000))

    async def _commit_plainly(self) -> None:
        """Commit a later offset of the same group outside of the transaction.

        Do nothing if the staged offset may arrive once more, later than this one.
        """
        if self.ledger.are_twins or self.was_staged_twice:
            return
        offset = self.ledger.next_offset()
        self.ledger.tries(offset)
        try:
            code = await self._group.commit(self._key, offset)
        except Disconnected:
            self.ledger.lost_sight(offset)
            return
        if code is ErrorCode.NONE:
            self.ledger.ended(offset, committed=True)
        else:
            self.ledger.lost_sight(offset)

    async def _look_at_offset(self) -> None:
        """Ask for the group's offset, unless a transaction has staged one (KIP-447)."""
        topic = offset_fetch.OffsetFetchRequestTopics(
            self._key.topic, partition_indexes=[self._key.partition]
        )
        asked = offset_fetch.OffsetFetchRequestGroup(self.ledger.group_id, topics=[topic])
        request = offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True)
        possible = self.ledger.possible
        try:
            answer = await self.client.call("OffsetFetch", offset_fetch, 8, request)
        except Disconnected:
            return
        [group] = answer.groups
        if group.error_code:
            return
        part = group.topics[0].partitions[0]
        if part.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return
        # A twin may have ended another transaction meanwhile.
        possible |= self.ledger.possible
        if OFFSETS in self.workload.world.settings:
            possible.add(NOTHING)  # it may have expired
        if part.committed_offset not in possible:
            text = f"{self.ledger.group_id} has {part.committed_offset}, not {sorted(possible)}"
            self.workload.world.complain("wrong staged offset", text)


class Deserter(Transactor):
    """Leaves transactions open for longer than their time-out, and then continues.

    It aborts its last transaction only in runs with wrong clocks.  In others gateways must do so.
    """

    timeout_ms = 5_000
    leave_share = 0.0
    _longest_absence_seconds = 14.0

    async def transact(self) -> Step:
        """Do one transaction, late if at all."""
        self.begin()
        step = await self._fill()
        if step is Step.OVER:
            return step
        await trio.sleep(self.rng.random() * self._longest_absence_seconds)
        if self.rng.random() < 0.3 and self.workload.operations_left > 0:
            return Step.OVER
        if step is Step.DONE and self.rng.random() < 0.5:
            step = await self.write(self._choose())
            if step is Step.OVER:
                return step
        return await (self.end(committed=True) if step is Step.DONE else self._abort())

    async def _leave(self) -> None:
        if self.workload.world.plan.has_wrong_clocks:
            await super()._leave()


class Dawdler(Transactor):
    """A client whose transaction takes longer than gateways keep producer states."""

    timeout_ms = 300_000

    async def _fill(self) -> Step:
        key = self._choose()
        step = await self.write(key)
        if step is not Step.DONE:
            return step
        await trio.sleep(RETENTION_SECONDS * 1.3)
        return await self.write(key)
