"""The simulator must find consumers that get no error after a restore, and nothing otherwise."""

from __future__ import annotations

import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.state.records.epochs import EpochStart
from tidegate_coordination.state.records.partition_table import PartitionTable
from tidegate_coordination.state.records.partitions import Partition
from tidegate_simulation.nemesis.restore_trial import STRIKE, TOLD, draws_restore
from tidegate_simulation.run import simulate

# This seed ends with a restore.  So does 16, which writes other records at old offsets.
SEED = 6
READS_BACK = 16


def begins_no_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionTable, "fold_epochs_opened", lambda self, step, at_least, mirrored: None)


def ends_epochs_at_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    def epoch_end(self: Partition, epoch: int) -> EpochStart:
        return EpochStart(epoch, self.next_offset)

    patch.setattr(Partition, "epoch_end", epoch_end)


def puts_batches_into_epoch_0(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "epoch_at", lambda self, offset: 0)


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (begins_no_epoch, {in_rules("was restored at"), "read across a restore"}, 16),
        (
            ends_epochs_at_the_end_of_the_log,
            {in_rules("was restored at"), "read across a restore"},
            16,
        ),
        (puts_batches_into_epoch_0, {in_rules("was restored at"), "wrong leader epoch"}, SEED),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bugs_of_leader_epochs_are_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch)


def test_consumers_get_an_error_after_a_restore() -> None:
    assert draws_restore(READS_BACK)
    report = simulate(READS_BACK)
    assert not report.violations
    assert report.landed.counts[STRIKE]
    assert report.landed.counts[TOLD]
