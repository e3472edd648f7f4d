"""Records whose bytes are in the log are healthy without an object, and are never skipped."""

from __future__ import annotations

import trio.testing

from tests.commands.topics.test_repair_proof import repair_of, repaired
from tests.fetch.test_fetch_holes import filled, key_of, rows
from tests.worlds.fetch_world import World, batch, fetch_world
from tidegate_coordination.rules.records.batch_outcomes import BatchFacts
from tidegate_coordination.rules.records.inlining import CommitInlined
from tidegate_coordination.rules.records.wal import CommitWal
from tidegate_coordination.state.records.objects import WalName
from tidegate_gateway.tools.readability import Problem
from tidegate_protocol.records import read_header
from tidegate_storage.objects.wal import OpenWal, WalIdentity


async def inline(world: World, text: str, counter: int = 500) -> int:
    """Commit an object of one batch inside the log; return its number."""
    data = batch(text)
    header = read_header(data)
    topic_id = world.partition("t").topic_id
    wal = OpenWal()
    wal.append(topic_id, 0, data, header.record_count, header.max_timestamp, None)
    name = WalName(world.coordinator.incarnation, counter)
    sealed = wal.seal(WalIdentity(world.node_id, *name))
    body, [placed] = bytes(sealed.body), sealed.batches
    facts = BatchFacts(
        topic_id, 0, placed.start_byte, placed.size_bytes, header.record_count,
        header.max_timestamp, header.crc,
        header.producer_id, header.producer_epoch, header.base_sequence, -1,
    )  # fmt: skip
    commit = CommitWal(name, len(body), [facts], is_walked=True)
    assert await world.coordinator.propose(CommitInlined.of(commit, body)) is not None
    return rows(world)[-1].object_number


async def test_records_in_the_log_are_healthy_and_stay(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world, 3)
        number = await inline(world, "small")
        await world.store.delete_many([key_of(world, rows(world)[0])])
        repair = await repair_of(other)

        found = await repair.look([world.partition("t").number])
        assert [each.row for each in found.bad] == rows(world)[:1]
        assert number not in found.objects
        assert all(row.object_number != number for _, row in found.sample)

        assert await repaired(other, repair) == (None, 1)
        assert len(rows(other)) == 3


async def test_bytes_of_the_log_that_are_absent_or_damaged_prove_no_loss(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with fetch_world(gateways=2) as [world, other]:
        await filled(world, 1)
        number = await inline(world, "small")
        repair = await repair_of(other)
        inlined = other.state.objects.inlined
        body = inlined.body(number)
        assert body is not None

        inlined.fill(number, bytes(len(body)))
        [bad] = (await repair.look([other.partition("t").number])).bad
        assert bad.problem is Problem.UNKNOWN
        assert "damaged" in bad.reason

        inlined.forget_all()
        inlined.decode(world.state.objects.inlined.encode())
        [bad] = (await repair.look([other.partition("t").number])).bad
        assert (bad.problem, "not read" in bad.reason) == (Problem.UNKNOWN, True)

        inlined.fill(number, body)
        assert not (await repair.look([other.partition("t").number])).bad
        assert await repaired(other, repair) == (None, 0)
