"""The simulator must find bugs of small writes, which travel in the metadata log (decision 49)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.worlds.planted_bugs import Plant, must_be_found
from tests.worlds.rule_search import in_rules
from tidegate_coordination.backup import restore
from tidegate_coordination.rules.records import inlining
from tidegate_coordination.state.folds import inlined as inlined_folds
from tidegate_coordination.state.records.inlined import InlinedObjects
from tidegate_coordination.state.records.objects import ObjectTable
from tidegate_gateway.inlining import mover, moving
from tidegate_gateway.inlining.mover import InlineMover
from tidegate_gateway.produce.wal_puts import WalPuts
from tidegate_gateway.upkeep import housekeeper
from tidegate_simulation.nemesis.restore_trial import draws_restore
from tidegate_storage.objects.wal import OpenWal

# -- what is moved --------------------------------------------------------------------------------


def moves_other_bytes(patch: pytest.MonkeyPatch) -> None:
    """A moved run begins a byte after its batches."""
    real: Any = moving._run
    patch.setattr(
        moving,
        "_run",
        lambda those: msgspec.structs.replace(run := real(those), position=run.position + 1),
    )


def moves_what_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    """A gateway commits a move although the PUT of the object did nothing."""
    real: Any = InlineMover._store

    async def store(self: Any, numbers: Any) -> Any:
        async def put(_self: Any, _key: str, _body: Any) -> None:
            pass

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(WalPuts, "put", put)
            return await real(self, numbers)

    patch.setattr(InlineMover, "_store", store)


def moves_what_has_changed(patch: pytest.MonkeyPatch) -> None:
    """A move takes over runs that were deleted, merged or moved meanwhile."""
    patch.setattr(
        inlining, "_is_unchanged", lambda state, stretch: stretch.partition in state.partitions
    )


def joins_over_holes(patch: pytest.MonkeyPatch) -> None:
    """A move joins two runs of a partition although another run lies between them."""
    patch.setattr(moving, "_neighbours", lambda batches: iter([list(batches)]))


def names_no_source(patch: pytest.MonkeyPatch) -> None:
    """A stored object does not say which batches were in the log, so salvage adds them again."""
    real: Any = OpenWal.seal
    patch.setattr(OpenWal, "seal", lambda self, identity, source_of=None: real(self, identity))


def moves_nothing_of_the_dead(patch: pytest.MonkeyPatch) -> None:
    """The housekeeper does not move the objects of ended gateways."""
    patch.setattr(mover, "due_of_others", lambda *_: iter([]))


# -- what the log keeps ---------------------------------------------------------------------------


def trims_bytes_that_are_not_moved(patch: pytest.MonkeyPatch) -> None:
    """The log is trimmed below the newest snapshot, whatever bytes are there."""
    patch.setattr(housekeeper, "first_needed_of", lambda snapshot: None)


def forgets_places_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    """A snapshot does not say which objects are in the log."""
    patch.setattr(InlinedObjects, "encode", lambda self: {})


def keeps_what_is_moved(patch: pytest.MonkeyPatch) -> None:
    """The state keeps the bytes of objects without a live run."""
    patch.setattr(InlinedObjects, "forget", lambda self, number: None)


def restores_no_bytes(patch: pytest.MonkeyPatch) -> None:
    """A restore stores no bodies of inlined objects."""

    async def nothing(work: Any, state: Any) -> None:
        state.objects.inlined.forget_all()

    patch.setattr(restore, "_store_inlined", nothing)


# -- folds ----------------------------------------------------------------------------------------


def forgets_the_check_of_moved_runs(patch: pytest.MonkeyPatch) -> None:
    """A fold of a move loses the check by which readers know the batches of a run."""
    real: Any = inlined_folds._row_of
    patch.setattr(inlined_folds, "_row_of", lambda run, number: real(run, number)._replace(check=0))


def holds_the_place_of_the_entry_before(patch: pytest.MonkeyPatch) -> None:
    """The state notes the position of the entry before the one with the bytes."""
    real: Any = ObjectTable.fold_inlined
    patch.setattr(
        ObjectTable,
        "fold_inlined",
        lambda self, name, position, body: real(self, name, position - 1, body),
    )


_UNREAD = {"lost", "unseen", "left in the log"}


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (moves_other_bytes, {"moved batches differ"}, 1),
        (moves_what_is_not_stored, {"not stored"}, 1),
        (moves_what_has_changed, {in_rules("a proposal failed")}, 1),
        (joins_over_holes, {"left in the log"}, 1),
        (moves_nothing_of_the_dead, {"left in the log"}, 2),
        (trims_bytes_that_are_not_moved, {"gateway died", "stuck"}, 3),
        (forgets_places_in_snapshots, {in_rules("a proposal failed"), *_UNREAD}, 3),
        (keeps_what_is_moved, {"left in the log"}, 1),
        (forgets_the_check_of_moved_runs, {*_UNREAD, "false error"}, 1),
        (holds_the_place_of_the_entry_before, {*_UNREAD, "gateway died"}, 3),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_planted_bug_of_small_writes_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, small_writes=True)


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (names_no_source, "doubled by a restore", 16),
        (restores_no_bytes, "unreadable after a restore", 44),
    ],
)
def test_planted_bug_of_a_restore_of_small_writes_is_found(
    plant: Plant, expected: str, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(
        plant,
        {expected},
        first_seed,
        monkeypatch,
        is_concerned_seed=draws_restore,
        small_writes=True,
    )
