"""The number of the coordinator's reads: each is a round trip, on all gateways."""

from __future__ import annotations

from random import Random

import trio
import trio.testing

from tests.coordinator.test_coordinator import CreateTopic, make, running
from tidegate_coordination.log.metadata_log import AppendResult, LogEntry, Trimmed
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog


class CountingLog(FaultyLog):
    """A log without faults that counts its calls."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log, LogFaults(), Random(0))
        self.calls: list[str] = []

    async def append(self, position: int, payload: bytes) -> AppendResult:
        self.calls.append("append")
        return await super().append(position, payload)

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        self.calls.append("read")
        return await super().read(from_position, max_bytes)


async def test_an_entry_of_another_gateway_costs_one_read(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    counting = CountingLog(log)
    one, other = make(log, 1), make(counting, 2)
    async with running(one, other):
        await one.propose(CreateTopic("first"))
        await trio.testing.wait_all_tasks_blocked()
        counting.calls.clear()
        await one.propose(CreateTopic("second"))
        await trio.testing.wait_all_tasks_blocked()
        assert counting.calls == ["read"]
        assert len(other.state.topics.by_name) == 2


async def test_a_lost_conflict_costs_one_read_and_another_append(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    counting = CountingLog(log)
    one, late = make(log, 1), make(counting, 2)
    async with running(one):
        await one.propose(CreateTopic("first"))
    answers: list[bool] = []
    for name in ("mine", "first"):
        late.submit(CreateTopic(name), answers.append, lambda _: None)
    async with running(late):
        await trio.testing.wait_all_tasks_blocked()
    assert answers == [True, False]
    assert counting.calls[:3] == ["append", "read", "append"]
    assert late.lost_conflicts == 1
