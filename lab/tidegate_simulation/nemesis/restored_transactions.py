"""Transactions over a restore of the metadata log, in runs that have transactions.

Before the copy a client begins a transaction.  After the copy the client continues, and perhaps
commits, and another client may fence it.  The restored log lacks these entries, unless a gateway
has made a later copy.  Kinds of violations:

    zombie after a restore    the first client writes or commits with an epoch of the lost entries
    id kept over a restore    a new client gets a producer id that was given before
    half a transaction        records are visible of a transaction that was not committed, or only
                              some of one that was
    staged over a restore     an offset is visible, and the records of its transaction are not
    lost after a restore      what the new client commits is not visible

These clients write no history: the checker does not know of restores.
"""

from __future__ import annotations

from random import Random
from typing import Final

import trio

from tidegate_protocol.messages import offset_fetch

from ..checks.history import History
from ..clients.client import Client, Disconnected
from ..clients.workload import Key, Workload
from ..members.groups import GroupClient
from ..transactions.committed_readers import CommittedReader
from ..transactions.ledger import Ledger
from ..transactions.steps import Step
from ..transactions.transactional_producer import TransactionalProducer

FENCED: Final = "log.restored.fenced"
_ID: Final = "restored"
_GROUP: Final = "of the restored"
_OFFSET: Final = 77
_NO_OFFSET: Final = -1


class _Client(TransactionalProducer):
    """A producer without a history."""

    double_share = 0.0
    hurry_shares = (0.0, 0.0)

    def __init__(self, workload: Workload, name: str, key: Key, *, is_new: bool) -> None:
        super().__init__(workload, name, Ledger(_ID, key), is_new=is_new)
        self.history = History(trio.current_time)

    def values(self) -> dict[str, set[int]]:
        """Return the values of all sends, by transaction."""
        found: dict[str, set[int]] = {}
        for event in self.history.events:
            if event.f == "send" and event.value is not None:
                found.setdefault(event.value["txn"], set()).update(event.value["values"])
        return found


class _Reader(CommittedReader):
    """Reads the committed records of a key."""

    def __init__(self, workload: Workload, key: Key) -> None:
        super().__init__(workload, "reader of what was restored", sessions=False)
        self.history = History(trio.current_time)
        self.seen: set[int] = set()
        self.assign({key: workload.first_offset})

    def took(self, key: Key, records: list[tuple[int, int]]) -> None:
        """See Reader."""
        self.seen |= {value for _, value in records}


class RestoredTransactions:
    """The transactions that are open when the log is copied, lost and restored."""

    def __init__(self, workload: Workload, key: Key, rng: Random) -> None:
        self._workload = workload
        self._key = key
        self._rng = rng
        self._first = self._make("first")
        self._given: set[tuple[int, int]] = set()
        self._has_begun = False
        self._committed = ""  # the transaction that was committed, if one was
        self._has_staged = False

    def _make(self, which: str) -> _Client:
        is_new = self._rng.random() < 0.5
        name = f"{which} transactor over the restore"
        return _Client(self._workload, name, self._key, is_new=is_new)

    async def before_the_copy(self) -> None:
        """Begin a transaction, which the copy holds open."""
        first = self._first
        if not await first.begin_life():
            return
        self._given.add(first.producer)
        first.begin()
        self._has_begun = await first.write(self._key) is Step.DONE

    async def after_the_copy(self) -> None:
        """Continue, in entries that will be lost."""
        if not self._has_begun:
            return
        first, group = self._first, GroupClient(self._first.client, _GROUP)
        step = await first.write(self._key)
        if step is Step.DONE and self._rng.random() < 0.5:
            step = await first.stage(group, self._key, _OFFSET)
            self._has_staged = step is Step.DONE
        if step is Step.DONE and self._rng.random() < 0.5:
            self._committed = first.transaction
            await first.end(committed=True)
            first.begin()
            await first.write(self._key)
        if self._rng.random() < 0.4:
            second = self._make("second")
            if await second.begin_life():
                self._given.add(second.producer)
            second.close()
        self._given.add(first.producer)
        first.close()

    async def after_the_restore(self) -> None:
        """Let the old client continue, and then a new one."""
        if not self._has_begun:
            return
        await self._rise_again()
        late = self._make("late")
        while not await late.begin_life():
            await late.client.pause(1.0)
        if late.producer[0] in {producer_id for producer_id, _ in self._given}:
            self._complain("id kept over a restore", f"{late.producer} after {self._given}")
        late.begin()
        written = await late.write(self._key) is Step.DONE and await late.end(committed=True)
        late.close()
        seen = await self._read()
        lost = late.values()[late.transaction] - seen if written is Step.DONE else set[int]()
        if lost:
            self._complain("lost after a restore", f"{lost}")
        await self._look_at_offset(is_committed=self._check(seen))
        self._workload.world.strikes.count(FENCED)

    async def _rise_again(self) -> None:
        """Write and commit with the old epoch, as a client that knows nothing of the restore."""
        first = self._first
        step = await first.write(self._key)
        committed = await first.end(committed=True)
        if Step.DONE in (step, committed):
            text = f"{first.producer}: its write is {step.name}, its end {committed.name}"
            self._complain("zombie after a restore", text)
        first.close()

    async def _read(self) -> set[int]:
        reader = _Reader(self._workload, self._key)
        end = -1
        while reader.positions[self._key] != end:
            await reader.poll()
            end = reader.ends.get(self._key, -1)
            await reader.client.pause(0.2)
        reader.client.close()
        return reader.seen

    def _check(self, seen: set[int]) -> bool:
        """Check the first client's transactions; return whether the committed one is visible."""
        for name, values in self._first.values().items():
            is_whole = name == self._committed and values <= seen
            if values & seen and not is_whole:
                self._complain("half a transaction", f"{name}: {values & seen} of {values}")
        committed = self._first.values().get(self._committed, set())
        return bool(committed & seen)

    async def _look_at_offset(self, *, is_committed: bool) -> None:
        client = Client(self._workload.world, "offset reader over the restore")
        key = self._key
        topic = offset_fetch.OffsetFetchRequestTopics(key.topic, partition_indexes=[key.partition])
        asked = offset_fetch.OffsetFetchRequestGroup(_GROUP, topics=[topic])
        request = offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True)
        try:
            answer = await client.call("OffsetFetch", offset_fetch, 8, request)
        except Disconnected:
            return
        finally:
            client.close()
        part = answer.groups[0].topics[0].partitions[0]
        expected = _OFFSET if is_committed and self._has_staged else _NO_OFFSET
        if part.error_code or part.committed_offset != expected:
            self._complain("staged over a restore", f"{part}")

    def _complain(self, kind: str, text: str) -> None:
        self._workload.world.complain(kind, text)
