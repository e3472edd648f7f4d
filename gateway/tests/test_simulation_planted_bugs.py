"""The simulator must find bugs: each is planted by replacing one part, and must show soon."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import trio

import tidegate_gateway.fetch_plan
import tidegate_gateway.gateway
from tidegate_coordination.coordinator import Coordinator
from tidegate_coordination.rules.wal import BatchOutcome, CommitWal
from tidegate_coordination.state.partitions import Partition
from tidegate_coordination.state.producers import ProducerState
from tidegate_coordination.state.runs import RunRow
from tidegate_gateway import log_reader, wal_writer
from tidegate_gateway.prepared_runs import PreparedRun, prepare_run
from tidegate_gateway.wal_writer import WalWriter
from tidegate_protocol.records import set_base_offset
from tidegate_simulation.run import simulate
from tidegate_storage.object_store import StoreUnavailable, put_idempotent
from tidegate_storage.wal import SealedWal

SEEDS = range(1, 61)
OPERATIONS = 150

Plant = Callable[[pytest.MonkeyPatch], None]


class AcknowledgesBeforeCommit(WalWriter):
    def _commit(self, wal: SealedWal) -> None:
        settle = self._settle
        settle(wal, [BatchOutcome(None, -1, -1, -1)] * len(wal.batches))
        self._settle = lambda wal, outcomes: None  # type: ignore[method-assign]
        super()._commit(wal)
        self._settle = settle  # type: ignore[method-assign]


class TakesFailedPutForDone(WalWriter):
    async def _put(self, sealed: Any) -> None:
        with suppress(StoreUnavailable):
            await put_idempotent(self._store, self._key_of(sealed.wal.identity), sealed.wal.body)


class ForgetsToWake(WalWriter):
    def append(self, *arguments: Any) -> None:
        before = self._work
        self._work = trio.Event()
        super().append(*arguments)
        self._work = before


class NeverCatchesUp(Coordinator):
    async def catch_up(self) -> None:
        await trio.lowlevel.checkpoint()


def in_gateway(name: str, part: type) -> Plant:
    return lambda patch: patch.setattr(tidegate_gateway.gateway, name, part)


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


def holes_in_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tidegate_gateway.fetch_plan, "_is_cut", lambda run, offset, piece: False)


def forgets_base_offsets(patch: pytest.MonkeyPatch) -> None:
    def wrong(region: memoryview, row: RunRow, partition: Partition, key: str) -> PreparedRun:
        run = prepare_run(region, row, partition, key)
        for start in run.starts[:-1]:
            set_base_offset(region, start, base_offset=row.base_offset, leader_epoch=0)
        return run

    patch.setattr(log_reader, "prepare_run", wrong)


def mixes_up_partitions(patch: pytest.MonkeyPatch) -> None:
    real = wal_writer._facts
    patch.setattr(wal_writer, "_facts", lambda batch: real(batch)._replace(partition=0))


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (in_gateway("WalWriter", AcknowledgesBeforeCommit), {"lost", "unseen"}),
        (in_gateway("WalWriter", TakesFailedPutForDone), {"not stored"}),
        (in_gateway("WalWriter", ForgetsToWake), {"stuck"}),
        (forgets_base_offsets, {"inconsistent offset"}),
        (mixes_up_partitions, {"foreign record"}),
        (in_gateway("Coordinator", NeverCatchesUp), {"stale end"}),
        (no_duplicate_window, {"refused send"}),
        (no_sequences, {"duplicate"}),
        (duplicates_get_new_offsets, {"inconsistent offset"}),
        (holes_in_answers, {"skipped"}),
    ],
)
def test_planted_bug_is_found(
    plant: Plant, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in SEEDS:
        found = {each.kind for each in simulate(seed, OPERATIONS).violations}
        if found & expected:
            print(f"found in seed {seed}: {sorted(found)}")
            return
    pytest.fail(f"not found in {len(SEEDS)} seeds")
