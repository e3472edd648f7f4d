"""Entries that arrive damaged from the log are read again; none is mistaken for another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
import trio.testing

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.entries import UnreadableEntry
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogUnavailable,
    Trimmed,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import Register, Renew
from tidegate_coordination.rules.records.producer_ids import ReserveProducerIds
from tidegate_coordination.state.cluster import ClusterState

Damage = Callable[[bytes], bytes]


class DamagingLog(MemoryLog):
    """Damages the first entry of `reads_left` reads, and loses `answers_lost` append answers."""

    def __init__(self, log: MemoryLog, damage: Damage) -> None:
        super().__init__()
        self._log = log
        self._damage = damage
        self.reads_left = 0
        self.answers_lost = 0

    async def append(self, position: int, payload: bytes) -> AppendResult:
        result = await self._log.append(position, payload)
        if self.answers_lost:
            self.answers_lost -= 1
            raise LogUnavailable("the answer was lost")
        return result

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        found = await self._log.read(from_position, max_bytes)
        if self.reads_left and found and not isinstance(found, Trimmed):
            self.reads_left -= 1
            found[0] = LogEntry(found[0].position, self._damage(found[0].payload))
        return found

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        await self._log.wait(after_position, timeout_seconds)


def last_byte(payload: bytes) -> bytes:
    return payload[:-1] + bytes([payload[-1] ^ 1])


def in_the_nonce(payload: bytes) -> bytes:
    return payload[:6] + bytes([payload[6] ^ 1]) + payload[7:]


@asynccontextmanager
async def registered(log: MemoryLog, node_id: int) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(
        log, ClusterState(), rng=Random(node_id), wall_clock=lambda: 1_000_000.0
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(coordinator.run)
        wanted = Register(node_id, f"{node_id}", "", (), "0", "c", highest_version=NEWEST)
        answer = await coordinator.propose(wanted)
        assert isinstance(answer, int)
        coordinator.incarnation = answer
        yield coordinator
        nursery.cancel_scope.cancel()


async def test_an_entry_that_arrives_damaged_once_is_read_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    damaging = DamagingLog(log, last_byte)
    async with registered(log, 1) as writer, registered(damaging, 2) as reader:
        damaging.reads_left = 1
        await writer.propose(Renew())
        await reader.catch_up()
        assert damaging.reads_left == 0
        assert reader.state.position == writer.state.position


async def test_an_entry_that_stays_damaged_stops_the_gateway(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = MemoryLog()
    damaging = DamagingLog(log, last_byte)
    stopped = pytest.RaisesExc(UnreadableEntry, match="fails its checksum")
    with pytest.RaisesGroup(stopped, flatten_subgroups=True):
        async with registered(log, 1) as writer, registered(damaging, 2) as reader:
            damaging.reads_left = 2
            await writer.propose(Renew())
            await reader.catch_up()


async def test_a_gateway_recognizes_its_own_entry_though_its_nonce_arrives_damaged(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Otherwise the gateway would decide and commit the proposal again."""
    log = DamagingLog(MemoryLog(), in_the_nonce)
    async with registered(log, 1) as writer:
        log.reads_left = log.answers_lost = 1
        first = writer.state.producer_ids.next_id
        assert await writer.propose(ReserveProducerIds(10)) == first
        assert writer.state.producer_ids.next_id == first + 10


async def test_no_proposal_is_answered_where_the_log_holds_other_bytes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    log = DamagingLog(MemoryLog(), last_byte)
    answers: list[int] = []
    stopped = pytest.RaisesExc(LogCorrupt, match="other bytes at 2")
    with pytest.RaisesGroup(stopped, flatten_subgroups=True):
        async with registered(log, 1) as writer:
            log.reads_left, log.answers_lost = 2, 1
            answers.append(await writer.propose(ReserveProducerIds(10)))
    assert not answers
