"""Planted bugs of returns: switched topics that go back to their source."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
from crc32c import crc32c

from tests.worlds.planted_bugs import Plant, must_be_found, untried
from tidegate_coordination.rules.written_back import reached_of
from tidegate_gateway.migration.back.batches import sendable
from tidegate_gateway.migration.back.partition import PartitionReverse
from tidegate_simulation.plans import link_plan
from tidegate_simulation.plans.faults import FaultPlan


def repeats_blindly(patch: pytest.MonkeyPatch) -> None:
    """After a lost answer the batch is sent again, without a look at the source."""

    async def find(self: PartitionReverse) -> None:
        await self._cluster.refresh([self.topic.name])
        self.position = max(self.position, reached_of(self._state, self.partition) or 0)

    def take(self: PartitionReverse, batch: Any, _: Any) -> None:
        self.position = batch.header.last_offset + 1
        self._parts.on_progress()

    patch.setattr(PartitionReverse, "find_position", find)
    patch.setattr(PartitionReverse, "_take", take)


def loses_sequences(patch: pytest.MonkeyPatch) -> None:
    """Batches go back to the source without their producer ids, epochs and sequences."""

    def plain(raw: memoryview, header: Any, offset: int) -> memoryview:
        batch = bytearray(sendable(raw, header, offset))
        batch[43:57] = b"\xff" * 14
        batch[17:21] = _crc(batch).to_bytes(4, "big")
        return memoryview(batch)

    patch.setattr("tidegate_gateway.migration.back.partition.sendable", plain)


def _crc(batch: bytearray) -> int:
    return crc32c(memoryview(batch)[21:])


def has_returns(plan: FaultPlan) -> bool:
    return plan.links.returns


def often(plant: Plant) -> Plant:
    """Have topics go back often; draw no faults of the source, which abort most switches."""

    @wraps(plant)
    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(link_plan, "_FORWARDS_SHARE", 1.0)
        patch.setattr(link_plan, "_RETURNS_SHARE", 1.0)
        patch.setattr(link_plan, "_KIND_SHARE", 0.0)
        plant(patch)

    return both


@pytest.mark.parametrize(
    ("plant", "expected", "first_seed"),
    [
        (repeats_blindly, {"not returned", "forward", "not mirrored"}, 1),
        (loses_sequences, {"forward", "mirror", "mirror read"}, 1),
    ],
)
def test_the_simulator_finds_it(
    plant: Plant, expected: set[str], first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    must_be_found(untried(often(plant)), expected, first_seed, monkeypatch, has_returns, links=True)
