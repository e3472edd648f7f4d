"""The cost sums that simulated gateways write agree with the objects that their store took.

A gateway that drains writes its sums last, so they count all WAL objects that it stored.  A gateway
that crashes writes no sums of its last interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tidegate_simulation.invariants.deletion_checks import DeletionWatch
from tidegate_simulation.run import simulate
from tidegate_simulation.world import world as world_module
from tidegate_simulation.world.world import WatchedStore
from tidegate_storage.objects.cost_sums import PARTS, CostSums, decode
from tidegate_storage.objects.keys import parse_cost_key, parse_wal_key
from tidegate_storage.stores.object_store import Buffer

OPERATIONS = 150
SEEDS = (13, 18, 28, 30)  # gateways drain in these


class RecordingStore(WatchedStore):
    """Remembers how many WAL objects each incarnation created, and its sums."""

    made: list[RecordingStore]

    def __init__(self, clock: Callable[[], float], deletions: DeletionWatch) -> None:
        super().__init__(clock, deletions)
        self.created: Counter[int] = Counter()
        self.sums: dict[int, list[CostSums]] = {}
        self.made.append(self)

    async def put(self, key: str, body: Buffer) -> None:
        await super().put(key, body)
        if "/wal/" in key:
            self.created[parse_wal_key(key).incarnation] += 1
        if "/costs/" in key:
            self.sums.setdefault(parse_cost_key(key).incarnation, []).append(decode(bytes(body)))


def test_drained_gateways_count_what_they_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordingStore, "made", [], raising=False)
    monkeypatch.setattr(world_module, "WatchedStore", RecordingStore)
    for seed in SEEDS:
        report = simulate(seed, OPERATIONS)
        assert not report.violations, report.replay
    written = 0
    for store in RecordingStore.made:
        for incarnation, all_sums in store.sums.items():
            booked = sum(each.requests.get("put wal", 0) for each in all_sums)
            # Because of faults, some PUTs never reach the store, and gateways repeat some.
            assert booked >= store.created[incarnation]
            for sums in all_sums:
                puts = sums.requests.get("put wal", 0) * PARTS
                assert sum(each.puts for each in sums.topics.values()) == puts
                assert sum(each.puts for each in sums.clients.values()) == puts
            written += 1
    assert written >= len(SEEDS)
