"""metadata.version: formats by level, gateways that may join, and when the level may rise."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from itertools import count
from random import Random

import crc32c
import msgspec
import pytest
import trio

from tidegate_coordination.backup.copier import Copier
from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.events import cluster as ev
from tidegate_coordination.events import gates as own_gates
from tidegate_coordination.events.entries import (
    UnreadableEntry,
    check_entry,
    decode_entry,
    encode_entry,
    encode_events,
    entry_nonce,
)
from tidegate_coordination.events.level_gates import LevelGates
from tidegate_coordination.events.metadata_versions import NEWEST, ReleaseTooOld
from tidegate_coordination.forwarding import codec
from tidegate_coordination.log.metadata_log import LogCorrupt, Trimmed
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.gateways import CannotJoin, Leave, Register, Renew, TakeClaim
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_coordination.rules.numbered import Numbered
from tidegate_coordination.state.cluster import ClusterState
from tidegate_storage.stores.memory_store import MemoryObjectStore

EVENTS = encode_events([ev.TopicDeleted(b"t" * 16), ev.GatewayRenewed()])
OLD, NEW = 1, 2
_SEEDS = count(1)


def coordinator(log: MemoryLog, highest_version: int = NEW) -> Coordinator:
    state = ClusterState(highest_version)
    rng = Random(next(_SEEDS))  # equal nonces would make an entry of another look like its own
    return Coordinator(log, state, rng=rng, wall_clock=lambda: 1_000_000.0)


def registration(node_id: int, highest_version: int, key: str = "key") -> Register:
    return Register(
        node_id, f"{key}-{abs(node_id)}", "az", (), f"0.{highest_version}", "cluster",
        highest_version=highest_version,
    )  # fmt: skip


async def begun(coordinator: Coordinator, node_id: int, key: str = "key") -> Coordinator:
    answer = await coordinator.propose(
        registration(node_id, coordinator.state.highest_version, key)
    )
    assert isinstance(answer, int)
    coordinator.incarnation = answer
    return coordinator


@asynccontextmanager
async def running(*coordinators: Coordinator) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for each in coordinators:
            nursery.start_soon(each.run)
        yield
        nursery.cancel_scope.cancel()


async def older_log() -> MemoryLog:
    """A cluster that an older release began, and left."""
    log = MemoryLog()
    old = coordinator(log, OLD)
    async with running(old):
        await begun(old, 99)
        await old.leave()
    return log


async def payloads(log: MemoryLog) -> list[bytes]:
    entries = await log.read(1, 1 << 30)
    assert not isinstance(entries, Trimmed)
    return [each.payload for each in entries]


async def formats(log: MemoryLog) -> list[int]:
    found = enumerate(await payloads(log), start=1)
    return [decode_entry(each, position).format for position, each in found]


# -- entries --------------------------------------------------------------------------------------


def test_an_entry_with_a_checksum_says_what_one_without_says() -> None:
    plain = encode_entry(b"n" * 12, 3, 99, EVENTS, 7)
    checked = encode_entry(b"n" * 12, 3, 99, EVENTS, 7, entry_format=2, position=1)
    one, other = decode_entry(plain, 1), decode_entry(checked, 1)
    assert (one.format, other.format) == (1, 2)
    assert msgspec.structs.replace(other, format=1) == one
    assert entry_nonce(checked) == b"n" * 12
    assert len(checked) == len(plain) + 5


def test_the_bytes_of_format_2_are_for_ever() -> None:
    events = encode_events([ev.GatewayExpired(4)])
    payload = encode_entry(b"n", 1, 2, events, 3, entry_format=2, position=258)
    check = crc32c.crc32c(bytes(6) + b"\1\2" + payload[:-5])
    assert payload[-4:] == check.to_bytes(4)
    assert payload.hex() == "9702c4016e010291920504" + "03ce" + payload[-4:].hex()
    assert payload[-4:].hex() == "9abed916"


def test_damage_of_any_byte_of_an_entry_is_detected() -> None:
    payload = encode_entry(b"n" * 12, 3, 99, EVENTS, 7, entry_format=2, position=5)
    for place in range(len(payload)):
        for flip in (0x01, 0x03, 0x80):
            damaged = bytearray(payload)
            damaged[place] ^= flip
            with pytest.raises(UnreadableEntry):
                decode_entry(bytes(damaged), 5, range(2, 3))
            with pytest.raises(UnreadableEntry):  # the caller gives no expected format
                check_entry(bytes(damaged), 5)
    check_entry(payload, 5)
    for length in range(len(payload)):
        with pytest.raises(UnreadableEntry):
            decode_entry(payload[:length], 5, range(2, 3))


def test_a_misplaced_entry_is_a_damaged_one() -> None:
    payload = encode_entry(b"n" * 12, 3, 99, EVENTS, 7, entry_format=2, position=5)
    for check in (check_entry, decode_entry):
        check(payload, 5)
        with pytest.raises(UnreadableEntry, match="entry 6 fails its checksum"):
            check(payload, 6)


def test_the_error_names_a_level_too_new_or_too_old() -> None:
    plain = encode_entry(b"n" * 12, 3, 99, EVENTS)
    checked = encode_entry(b"n" * 12, 3, 99, EVENTS, entry_format=2)
    with pytest.raises(UnreadableEntry, match=r"entry 7 has format 2.*Run a newer release"):
        decode_entry(checked, 7, range(1, 2))
    with pytest.raises(UnreadableEntry, match=r"entry 7 has format 1.*It is damaged"):
        decode_entry(plain, 7, range(2, 3))


async def test_a_damaged_entry_is_not_copied_to_a_backup() -> None:
    log, store = MemoryLog(), MemoryObjectStore()
    plain = encode_entry(b"n" * 12, 3, 99, EVENTS)
    checked = encode_entry(b"n" * 12, 3, 99, EVENTS, entry_format=2, position=2)
    damaged = checked[:-1] + bytes([checked[-1] ^ 1])
    for position, payload in enumerate((plain, checked, damaged), start=1):
        await log.append(position, payload)
    with pytest.raises(LogCorrupt, match="entry 3 fails its checksum"):
        await Copier(log, store, "cluster", 1).copy()
    assert not await store.list("")


# -- levels ---------------------------------------------------------------------------------------


async def test_a_new_cluster_begins_at_the_newest_level() -> None:
    log = MemoryLog()
    one = coordinator(log, NEWEST)
    async with running(one):
        await begun(one, 1)
        await one.propose(Renew())
    assert one.state.metadata_version == NEWEST
    assert await formats(log) == [1, 2]


async def test_a_cluster_that_an_older_release_began_is_raised_when_all_can_read_it() -> None:
    log = MemoryLog()
    old, new = coordinator(log, OLD), coordinator(log)
    async with running(new):
        async with running(old):
            await begun(old, 1)
            await begun(new, 2)
            for wish in (SetMetadataVersion(NEW), SetMetadataVersion(NEW, only_checks=True)):
                refusal = await new.propose(wish)
                assert "gateway 1 (release 0.1, up to 1)" in refusal
                assert "gateway 2" not in refusal
            await old.leave()
        assert await new.propose(SetMetadataVersion(NEW, only_checks=True)) == ""
        assert new.state.metadata_version == OLD
        assert await new.propose(SetMetadataVersion(NEW)) == ""
        assert new.state.metadata_version == NEW
        await new.propose(Renew())
        assert await new.propose(SetMetadataVersion(NEW)) == ""
    assert await formats(log) == [1, 1, 1, 1, 2]


@pytest.mark.parametrize("through_another", [False, True])
async def test_a_gateway_whose_version_was_forgotten_says_it_again_when_it_renews(
    through_another: bool,
) -> None:
    """A snapshot of an older release has no versions, for example."""
    log = await older_log()
    one, other = coordinator(log), coordinator(log)
    async with running(one, other):
        await begun(one, 1)
        await begun(other, 2)
        await one.catch_up()
        one.state.gateways.live[other.incarnation].highest_version = OLD
        assert "gateway 2" in await one.propose(SetMetadataVersion(NEW, only_checks=True))
        renewal = Renew(NEW)
        if through_another:
            numbered = Numbered(other.incarnation, 1, 0, 0, 0, renewal, codec.encode)
            await one.propose(numbered)
        else:
            await other.propose(renewal)
        assert await one.propose(SetMetadataVersion(NEW)) == ""


async def test_a_renewal_says_no_less_than_was_known() -> None:
    one = coordinator(MemoryLog())
    async with running(one):
        await begun(one, 1)
        await one.propose(Renew())
    assert one.state.gateways.live[one.incarnation].highest_version == NEW


async def test_a_process_that_is_no_gateway_counts_too() -> None:
    log = MemoryLog()
    driver, new = coordinator(log, OLD), coordinator(log)
    async with running(new, driver):
        await begun(driver, -9, "pipeline")
        await begun(new, 2)
        refusal = await new.propose(SetMetadataVersion(NEW))
    assert "pipeline process -9 (release 0.1, up to 1)" in refusal


async def test_the_version_never_falls_and_stays_within_known_levels() -> None:
    one = coordinator(MemoryLog())
    async with running(one):
        await begun(one, 1)
        assert "cannot be lowered" in await one.propose(SetMetadataVersion(OLD))
        for unknown in (0, -1, NEWEST + 1):
            assert f"knows tidegate.metadata.version 1 to {NEWEST}" in await one.propose(
                SetMetadataVersion(unknown)
            )


async def test_a_gateway_that_loses_a_race_to_the_raise_writes_the_new_format() -> None:
    """Its entry was encoded in the old format for the position that the raise took."""
    log = await older_log()
    one, other = coordinator(log), coordinator(log)
    async with running(one, other):
        await begun(one, 1)
        await begun(other, 2)
        await one.catch_up()
    async with running(one):
        assert await one.propose(SetMetadataVersion(NEW)) == ""
    async with running(other):
        await other.propose(Renew())
    assert other.lost_conflicts > 0
    assert (await formats(log))[-2:] == [1, 2]


async def test_an_older_release_stops_where_the_raise_is_and_one_that_begins_is_refused() -> None:
    log = await older_log()
    asleep, late = coordinator(log, OLD), coordinator(log, OLD)
    async with running(asleep):
        await begun(asleep, 1)
    new = coordinator(log)
    async with running(new):
        await begun(new, 2)
        await new.propose(Leave(asleep.incarnation))
        assert await new.propose(SetMetadataVersion(NEW)) == ""
    before = await payloads(log)
    too_old = pytest.RaisesExc(ReleaseTooOld, match=r"metadata\.version 2.* up to 1")
    for each in (asleep, late):
        with pytest.RaisesGroup(too_old, flatten_subgroups=True):
            async with running(each):
                await each.propose(registration(3, OLD))
    assert await payloads(log) == before


async def test_an_older_release_cannot_register_through_others() -> None:
    one = coordinator(MemoryLog())
    async with running(one):
        await begun(one, 1)
        assert await one.propose(registration(2, OLD)) is CannotJoin.TOO_OLD


async def test_a_raise_and_a_registration_meet_at_the_compare_and_set() -> None:
    log = await older_log()
    new, late = coordinator(log), coordinator(log, OLD)
    async with running(new):
        await begun(new, 2)
    async with running(late):
        await begun(late, 3)
    assert len(new.state.gateways.live) == 1  # `new` has not read gateway 3 when it first decides
    async with running(new):
        assert "gateway 3" in await new.propose(SetMetadataVersion(NEW))
    assert new.state.metadata_version == OLD


async def test_an_event_that_needs_a_higher_level_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gates = LevelGates(OLD, {ev.GatewayRenewed: NEW}, {})
    monkeypatch.setattr(own_gates, "GATES", gates)
    log = MemoryLog()
    old = coordinator(log, OLD)
    async with running(old):
        await begun(old, 1)
        with pytest.raises(ProposalFailed, match=r"needs tidegate\.metadata\.version 2"):
            await old.propose(Renew())
        await old.propose(TakeClaim("goes on"))
    assert len(await payloads(log)) == 2


async def test_a_field_that_needs_a_higher_level_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gates = LevelGates(OLD, {}, {(ev.GatewayRenewed, "highest_version"): NEW})
    monkeypatch.setattr(own_gates, "GATES", gates)
    log = MemoryLog()
    old = coordinator(log, OLD)
    async with running(old):
        await begun(old, 1)
        await old.propose(Renew())
        with pytest.raises(ProposalFailed, match=r"needs tidegate\.metadata\.version 2"):
            await old.propose(Renew(1))
        await old.propose(TakeClaim("goes on"))
    assert len(await payloads(log)) == 3


async def test_the_entry_that_raises_the_level_may_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new cluster may use its level from the first entry on.

    No older release folds that entry.
    """
    gates = LevelGates(OLD, {}, {(ev.ClusterCreated, "lease_ms"): NEW})
    monkeypatch.setattr(own_gates, "GATES", gates)
    for highest, is_taken in ((NEW, True), (OLD, False)):
        one = coordinator(MemoryLog(), highest)
        proposal = replace(registration(1, highest), lease_ms=5)
        async with running(one):
            with nullcontext() if is_taken else pytest.raises(ProposalFailed, match="needs"):
                await one.propose(proposal)
        assert bool(one.state.cluster_id) is is_taken
