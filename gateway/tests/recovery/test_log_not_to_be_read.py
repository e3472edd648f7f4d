"""If a gateway can no longer use its log, it stops, says what to do, and writes nothing."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.worlds.cluster.several_gateways import Clock, OutageLog, cluster
from tidegate_coordination.events.entries import CHECKED_FORMAT, encode_entry
from tidegate_coordination.log.metadata_log import FIRST_POSITION, AppendResult, LogEntry, Trimmed
from tidegate_gateway.refusals_to_start import sentence_of

NEWER_EVENT = msgspec.Raw(msgspec.msgpack.encode(["an-event-of-tomorrow", 1]))


class ReorderingLog(OutageLog):
    """A log that returns entries in reverse order while `reorders` is set."""

    reorders = False

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        entries = await super().read(from_position, max_bytes)
        return entries[::-1] if self.reorders and isinstance(entries, list) else entries


async def entries_of(log: OutageLog) -> list[LogEntry]:
    entries = await OutageLog.read(log, FIRST_POSITION, 1 << 30)
    assert isinstance(entries, list)
    return entries


async def start_on_a_reordering(log: ReorderingLog, held: list[LogEntry]) -> None:
    async with cluster() as world:
        world.log = log
        first = await world.start(1, Clock())
        await first.world.create_topic("t", 1)
        first.stop()
        await trio.sleep(1)
        held += await entries_of(log)
        log.reorders = True
        await world.start(2, Clock())


async def test_a_log_with_entries_out_of_order_stops_a_start(
    autojump_clock: MockClock,
) -> None:
    log, held = ReorderingLog(), list[LogEntry]()
    with pytest.raises(BaseExceptionGroup) as stopped:
        await start_on_a_reordering(log, held)
    sentence = sentence_of(stopped.value) or ""
    assert f"gave entry {held[-1].position} after 0, out of order" in sentence
    assert "`tidegate log verify URL`" in sentence
    assert "`tidegate log restore`" in sentence
    assert await entries_of(log) == held


async def meet_a_newer_event(log: OutageLog) -> None:
    async with cluster() as world:
        world.log = log
        gateway = await world.start(1, Clock())
        end = gateway.gateway.coordinator.state.position + 1
        entry = encode_entry(
            bytes(8), 1, 0, [NEWER_EVENT], entry_format=CHECKED_FORMAT, position=end
        )
        assert await log.append(end, entry) is AppendResult.APPENDED
        await trio.sleep(60)


async def test_an_event_of_a_newer_release_stops_a_running_gateway(
    autojump_clock: MockClock,
) -> None:
    log = OutageLog()
    with pytest.raises(BaseExceptionGroup) as stopped:
        await meet_a_newer_event(log)
    last = (await entries_of(log))[-1]
    assert b"an-event-of-tomorrow" in last.payload  # no entry is written behind it
    sentence = sentence_of(stopped.value) or ""
    assert "the metadata log holds what this release cannot read: " in sentence
    assert f"metadata log entry {last.position} cannot be read" in sentence
    assert "run a newer release, or restore the log" in sentence
