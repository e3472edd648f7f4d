"""Planted bugs of the disk cache and of sending from its files; see planted_bugs.py."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from crc32c import crc32c

from tests.worlds.planted_bugs import Plant, must_be_found
from tidegate_simulation.plans.faults import FaultPlan
from tidegate_simulation.world.node import Node
from tidegate_storage.disk.cache_files import FileKey, FileName, Place, Verified
from tidegate_storage.objects.prepared_runs import PreparedRun, prepare_chunk
from tidegate_storage.objects.segment_format import Chunk
from tidegate_storage.stores.files.file_part import FilePart
from tidegate_storage.stores.files.steps import DiskSteps


def _trusts_its_files(patch: pytest.MonkeyPatch) -> None:
    """The disk cache does not compare a file with its index."""

    def wrong(region: memoryview, chunk: Chunk) -> PreparedRun:
        return prepare_chunk(region, chunk._replace(length=len(region), crc32c=crc32c(region)))

    patch.setattr("tidegate_gateway.fetch.segment_disk.prepare_chunk", wrong)


def checks_no_crc(patch: pytest.MonkeyPatch) -> None:
    def wrong(
        steps: DiskSteps, name: FileName, check: Callable[[memoryview], Any]
    ) -> tuple[Verified, Any]:
        file = steps.open_file(name.path)
        return Verified(file, file.stamp()), check(memoryview(file.read_at(0, name.length)))

    _trusts_its_files(patch)
    patch.setattr("tidegate_storage.disk.cache.read_file", wrong)


def checks_no_crc_of_flipped_files(patch: pytest.MonkeyPatch) -> None:
    """Each crash flips bits, because at a drawn fault the cache often has no file yet."""
    real, rng = Node.crash, Random(1)

    def crash(self: Node, *, comes_back_fast: bool = False) -> None:
        self.disk.flip(rng)
        real(self, comes_back_fast=comes_back_fast)

    patch.setattr(Node, "crash", crash)
    checks_no_crc(patch)


def forgets_the_object(patch: pytest.MonkeyPatch) -> None:
    def wrong(place: Place) -> FileKey:
        return FileKey("0" * 32, place.position)

    _trusts_its_files(patch)
    patch.setattr("tidegate_storage.disk.cache.file_key", wrong)


def removes_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tidegate_storage.disk.cache_files.remove_files", lambda steps, paths: [])


def forgets_where_a_slice_begins(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: FilePart, where: slice) -> FilePart:
        start, stop, _ = where.indices(len(self))
        return FilePart(self._file, self._stamp, self._use, start, max(stop - start, 0))

    patch.setattr(FilePart, "__getitem__", wrong)


# first_seed: the wide search begins at this seed, which finds the bug.
@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (forgets_the_object, {"foreign record"}, 6),
        (removes_nothing, {"disk cache too large"}, 4),
        (forgets_where_a_slice_begins, {"the run broke off"}, 6),
    ],
)
def test_planted_bug_of_the_disk_cache_is_found(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(plant, expected, first_seed, monkeypatch, lambda plan: plan.disks.max_bytes > 0)


def test_files_that_are_read_without_their_crc_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_room(plan: FaultPlan) -> bool:
        return plan.disks.max_bytes > 8_192

    plant, kinds = checks_no_crc_of_flipped_files, {"the run broke off"}
    must_be_found(plant, kinds, 124, monkeypatch, has_room)
