"""The simulator must find bugs: each test replaces one part, and the bug must show soon.

These are bugs of writing, reading and storing; test_planted_log_bugs.py has those of log, groups
and topics.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import trio

import tidegate_gateway.fetch.fetch_plan
from tests.worlds.planted_bugs import Plant, must_be_found, put_in_place
from tests.worlds.rule_search import in_rules
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.object_names.keys import object_key
from tidegate_coordination.rules.housekeeping import collectable, plan_retention
from tidegate_coordination.rules.records.batch_outcomes import BatchOutcome
from tidegate_coordination.rules.records.deletions import DeleteRecords
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.rules.records.wal_judge import WalJudge
from tidegate_coordination.state.records.partitions import Partition
from tidegate_coordination.state.records.producers import ProducerState
from tidegate_coordination.state.records.runs import RunRow
from tidegate_gateway import builder
from tidegate_gateway.fetch import run_verifier
from tidegate_gateway.fetch.fetch_waiters import FetchWaiters
from tidegate_gateway.fetch.prepared_runs import PreparedRun, prepare_run
from tidegate_gateway.fetch.time_search import find_first
from tidegate_gateway.network.transport import Buffer
from tidegate_gateway.parts import reads, writes
from tidegate_gateway.produce import record_checks, wal_commits, wal_writer
from tidegate_gateway.produce.commit_order import CommitOrder
from tidegate_gateway.produce.produce_times import ObjectTimes
from tidegate_gateway.produce.wal_commits import MirroredToken, WalCommits
from tidegate_gateway.produce.wal_puts import WalPuts
from tidegate_gateway.produce.wal_writer import WalWriter
from tidegate_gateway.requests.records import fetch
from tidegate_gateway.requests.records.produce_answers import Token
from tidegate_gateway.upkeep import housekeeper
from tidegate_protocol.records import set_base_offset
from tidegate_storage.objects.wal import SealedWal
from tidegate_storage.range_cache import RangeCache
from tidegate_storage.stores.object_store import StoreUnavailable, put_idempotent

# -- writing --------------------------------------------------------------------------------------


class AcknowledgesBeforeCommit(WalCommits):
    def commit(
        self,
        wal: SealedWal,
        key: str,
        mirrored: Collection[MirroredToken],
        of_object: ObjectTimes,
        instead: Callable[[], None] | None = None,
    ) -> None:
        settle = self.settle
        settle(wal, [BatchOutcome(None, -1, -1, -1)] * len(wal.batches))
        self.settle = lambda wal, outcomes: None  # type: ignore[method-assign]
        super().commit(wal, key, mirrored, of_object, instead)
        self.settle = settle  # type: ignore[method-assign]


class TakesFailedPutForDone(WalPuts):
    async def put(self, key: str, body: Buffer) -> None:
        with suppress(StoreUnavailable):
            await put_idempotent(self._store, key, body)


class UndoesUnknownPuts(WalPuts):
    async def put(self, key: str, body: Buffer) -> None:
        try:
            await put_idempotent(self._store, key, body)
        except StoreUnavailable:
            await super().put(key, body)
            with suppress(StoreUnavailable):
                await self._store.delete_many([key])


class ForgetsToWake(WalWriter):
    def __init__(self, *arguments: Any, inflow: Any, **more: Any) -> None:
        super().__init__(*arguments, inflow=inflow, **more)
        inflow.on_end = lambda: None

    def append(self, *arguments: Any) -> None:
        before = self._work
        self._work = trio.Event()
        super().append(*arguments)
        self._work = before


class CommitsOutOfOrder(CommitOrder):
    def hand_on(self) -> None:
        holds = self._way.holds_commits
        for sealed in [
            each for each in self.objects if each.given_up or (each.stored_at >= 0 and not holds)
        ]:
            self.take_out(sealed)
            if not sealed.given_up:
                self._commits.commit(sealed.wal, sealed.key, sealed.mirrored, sealed.times)
            else:
                self._commits.abandon(sealed.wal, is_cut_off=self._way.is_cut_off)


def in_gateway(part: type, name: str = "WalWriter") -> Plant:
    where = {
        "WalWriter": writes,
        "WalPuts": wal_writer,
        "CommitOrder": wal_writer,
        "RangeCache": reads,
    }[name]

    def plant(patch: pytest.MonkeyPatch) -> None:
        put_in_place(patch, where, name, part)

    plant.__name__ = part.__name__
    return plant


def never_catches_up(patch: pytest.MonkeyPatch) -> None:
    put_in_place(patch, builder, "Coordinator", NeverCatchesUp)


def acknowledges_before_commit(patch: pytest.MonkeyPatch) -> None:
    put_in_place(patch, wal_writer, "WalCommits", AcknowledgesBeforeCommit)


def mixes_up_partitions(patch: pytest.MonkeyPatch) -> None:
    real = wal_commits._facts
    patch.setattr(wal_commits, "_facts", lambda batch: real(batch)._replace(partition=0))


def acknowledges_refused_batches(patch: pytest.MonkeyPatch) -> None:
    real = Token.settle
    patch.setattr(Token, "settle", lambda self, outcome: real(self, outcome._replace(refusal=None)))


def no_duplicate_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "duplicate_of", lambda self, first, last: None)


def no_sequences(patch: pytest.MonkeyPatch) -> None:
    decide = CommitWal.decide

    def blind(self: CommitWal, view: Any) -> Any:
        batches = [each._replace(producer_id=-1) for each in self.batches]
        return decide(replace(self, batches=batches), view)

    patch.setattr(CommitWal, "decide", blind)


def duplicates_get_new_offsets(patch: pytest.MonkeyPatch) -> None:
    real = ProducerState.duplicate_of

    def wrong(self: ProducerState, first: int, last: int) -> Any:
        found = real(self, first, last)
        return found and found._replace(base_offset=found.base_offset + 1)

    patch.setattr(ProducerState, "duplicate_of", wrong)


def sequences_never_wrap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        ProducerState, "expected_sequence", lambda self: self.batches[-1].last_sequence + 1
    )


def takes_old_epochs(patch: pytest.MonkeyPatch) -> None:
    real = WalJudge._judge_sequence

    def wrong(self: Any, batch: Any, partition: Partition) -> Any:
        known = self._producer((partition.number, batch.producer_id))
        if known is None or batch.producer_epoch >= known.epoch:
            return real(self, batch, partition)
        return None

    patch.setattr(WalJudge, "_judge_sequence", wrong)


# -- reading --------------------------------------------------------------------------------------


class NeverCatchesUp(Coordinator):
    async def catch_up(self) -> None:
        await trio.lowlevel.checkpoint()


class WrongCache(RangeCache[Any]):
    """Looks things up, and stores them, under wrong keys."""

    def get_nowait(self, key: Any, *, promote: bool = True) -> Any:
        return super().get_nowait(self.wrong(key), promote=promote)

    def put(self, key: Any, value: Any, size_bytes: int, hot: bool) -> None:
        super().put(self.wrong(key), value, size_bytes, hot)

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(self.wrong(key))

    @abstractmethod
    def wrong(self, key: Any) -> Any:
        """Return the wrong key: key is an object's name, or (name, position)."""


class ForgetsWhoWroteWhat(WrongCache):
    """Its keys omit the incarnation."""

    def wrong(self, key: Any) -> Any:
        return (key[0][1:], key[1]) if isinstance(key[0], tuple) else key[1:]


class ForgetsWhereRunsLie(WrongCache):
    """Its keys omit the position of a run in its object."""

    def wrong(self, key: Any) -> Any:
        return (key[0], "run") if isinstance(key[0], tuple) else key


class _Agreeable(int):
    """Equal to every number."""

    def __ne__(self, other: object) -> bool:
        return False


def serves_what_it_does_not_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidegate_storage.objects.prepared_runs.crc32c", lambda data: _Agreeable())


def holes_in_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tidegate_gateway.fetch.fetch_plan, "_is_cut", lambda run, offset, piece: False)


def forgets_base_offsets(patch: pytest.MonkeyPatch) -> None:
    def wrong(region: memoryview, row: RunRow, partition: Partition, key: str) -> PreparedRun:
        run = prepare_run(region, row, partition, key)
        for start in run.starts[:-1]:
            set_base_offset(region, start, base_offset=row.base_offset, leader_epoch=0)
        return run

    patch.setattr(run_verifier, "prepare_run", wrong)


def lags_and_says_out_of_range(patch: pytest.MonkeyPatch) -> None:
    async def sure(self: Any) -> None:
        await trio.lowlevel.checkpoint()
        self._proof = True

    patch.setattr(fetch._Reading, "_catch_up", sure)


def wakes_no_fetch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FetchWaiters, "on_change", lambda self, touched: None)


def searches_past_the_record(patch: pytest.MonkeyPatch) -> None:
    async def wrong(*arguments: Any) -> Any:
        found = await find_first(*arguments)
        return found and found._replace(offset=found.offset + 1)

    patch.setattr("tidegate_gateway.requests.records.list_offsets.find_first", wrong)


# -- deleting -------------------------------------------------------------------------------------


def collects_what_lives(patch: pytest.MonkeyPatch) -> None:
    taken: set[int] = set()

    def wrong(state: Any, grace_ms: int, copied_ms: float, **_: Any) -> list[int]:
        oldest = {each.runs[0].object_number for each in state.partitions.values() if each.runs}
        more = sorted(oldest - taken)
        taken.update(more)
        return collectable(state, grace_ms, copied_ms) or more

    patch.setattr("tidegate_gateway.upkeep.housekeeper.collectable", wrong)


def deletes_before_the_event(patch: pytest.MonkeyPatch) -> None:
    """The housekeeper deletes expired objects before it appends the event that frees them.

    The append may fail.
    """
    real = housekeeper.Housekeeper.keep_house_once

    async def wrong(self: Any) -> None:
        state = self._coordinator.state
        names = [
            state.objects.name(each.runs[at].object_number)
            for each in state.partitions.values()
            for at in range(len(each.runs) - 1)
            if each.log_start > 0
        ]
        await self._store.delete_many([object_key(state, name) for name in names])
        await real(self)

    patch.setattr(housekeeper.Housekeeper, "keep_house_once", wrong)


def retains_too_short(patch: pytest.MonkeyPatch) -> None:
    def wrong(state: Any, settings_of: Any, topics: Any) -> Any:
        def shorter(topic: Any) -> Any:
            settings = settings_of(topic)
            return replace(settings, retention_ms=max(settings.retention_ms // 20, -1))

        return plan_retention(state, shorter, topics)

    patch.setattr("tidegate_gateway.upkeep.housekeeper.plan_retention", wrong)


def believes_the_header_of_a_batch(patch: pytest.MonkeyPatch) -> None:
    """The header of a batch keeps the largest time stamp that its client wrote."""
    patch.setattr(record_checks, "_true_header", lambda header, max_timestamp: header)


def log_start_falls_back(patch: pytest.MonkeyPatch) -> None:
    real = DeleteRecords.decide
    patch.setattr(DeleteRecords, "decide", lambda self, view: replace(real(self, view), events=()))


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (acknowledges_before_commit, {"lost", "unseen", "no offset"}, 1),
        (in_gateway(TakesFailedPutForDone, "WalPuts"), {"not stored"}, 1),
        (in_gateway(UndoesUnknownPuts, "WalPuts"), {"not stored", "lost"}, 1),
        (in_gateway(ForgetsToWake), {"stuck"}, 1),
        (in_gateway(CommitsOutOfOrder, "CommitOrder"), {"reordered send", "refused send"}, 10),
        (mixes_up_partitions, {"foreign record"}, 1),
        (acknowledges_refused_batches, {"lost", "zombie write", "deleted topic written"}, 1),
        (no_duplicate_window, {in_rules("and is refused"), "refused send"}, 8),
        (no_sequences, {in_rules("where sequence"), "duplicate"}, 1),
        (duplicates_get_new_offsets, {in_rules("a repeat of"), "inconsistent offset"}, 1),
        (sequences_never_wrap, {"refused send"}, 34),
        (takes_old_epochs, {in_rules("a fenced epoch"), "zombie write"}, 1),
        (never_catches_up, {"stale end"}, 25),
        (in_gateway(ForgetsWhoWroteWhat, "RangeCache"), {"false error", "foreign record"}, 4),
        (in_gateway(ForgetsWhereRunsLie, "RangeCache"), {"foreign record"}, 2),
        (serves_what_it_does_not_check, {"the run broke off"}, 6),
        (holes_in_answers, {"skipped"}, 12),
        (forgets_base_offsets, {"inconsistent offset"}, 1),
        (lags_and_says_out_of_range, {"false out of range", "false error"}, 28),
        (wakes_no_fetch, {"late wake-up"}, 1),
        (searches_past_the_record, {"wrong time search"}, 6),
        (collects_what_lives, {"not stored"}, 1),
        (deletes_before_the_event, {"not stored"}, 2),
        (retains_too_short, {"retained too short"}, 7),
        (believes_the_header_of_a_batch, {"lost", "log start too high"}, 2),
        (log_start_falls_back, {in_rules("starts at"), "log start fell"}, 2),
    ],
)
def test_planted_bug_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch)
