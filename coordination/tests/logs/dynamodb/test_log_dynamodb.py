"""A log in DynamoDB: the contract, what it costs, crashes, lost answers and races."""

from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.worlds.dynamo_world import MemoryItems, opened
from tests.worlds.object_world import all_entries, broken_promises, entries, fill
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.logs.dynamodb.layout import (
    END,
    PIECE_BYTES,
    Attributes,
    End,
    Item,
    entry_name,
)

LARGE = Random(1).randbytes(1 << 20)
OTHER = Random(2).randbytes(1 << 20)


@pytest.fixture
def items() -> MemoryItems:
    return MemoryItems()


async def test_it_keeps_the_contract(items: MemoryItems, autojump_clock: MockClock) -> None:
    async def open_one() -> MetadataLog:
        await trio.lowlevel.checkpoint()
        return opened(items)

    assert await broken_promises(open_one) == []


def test_it_asks_for_forwarding(items: MemoryItems) -> None:
    assert opened(items).capabilities.forward_to_leader


# -- what it costs --------------------------------------------------------------------------------


async def test_an_append_is_one_request(items: MemoryItems) -> None:
    await fill(opened(items), 1, 100)
    assert items.requests == {"append": 100}


async def test_a_large_entry_is_cut_into_pieces_beside_its_head(items: MemoryItems) -> None:
    log = opened(items)
    assert await log.append(1, LARGE) is AppendResult.APPENDED
    assert items.requests == {"piece": 3, "append": 1}
    assert items.log[entry_name(1)]["body"] == b""
    assert await opened(items).read(1, 1) == [LogEntry(1, LARGE)]


async def test_the_end_of_the_log_is_one_request(items: MemoryItems) -> None:
    log = opened(items)
    await fill(log, 1, 3)
    items.requests.clear()
    assert await log.read(4, 1 << 20) == []
    assert items.requests == {"end": 1}
    assert await log.read(2, 1 << 20) == entries(2, 3)
    assert items.requests == {"end": 2, "page": 1}


async def test_a_read_is_bounded_by_what_heads_say(items: MemoryItems) -> None:
    log = opened(items)
    for position in range(1, 5):
        await log.append(position, LARGE)
    items.requests.clear()
    page = await log.read(1, 2 << 20)
    assert not isinstance(page, Trimmed)
    assert [each.position for each in page] == [1, 2]
    assert items.requests["page"] == 1 + 2  # the heads, and the pieces of each entry


async def test_waiting_looks_more_and_more_seldom(
    items: MemoryItems, autojump_clock: MockClock
) -> None:
    log = opened(items)
    with trio.move_on_after(60):
        for _ in range(60):
            await log.wait(0, 1.0)
    assert set(items.requests) == {"old end"}
    assert 55 < items.requests["old end"] < 70


async def test_a_wait_sees_entries_of_other_gateways(
    items: MemoryItems, autojump_clock: MockClock
) -> None:
    log, other = opened(items), opened(items)
    for position, idle_seconds in ((1, 0.01), (2, 100.0), (3, 0.01)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.wait, position - 1, 1000.0)
            await trio.sleep(idle_seconds)
            began = trio.current_time()
            await other.append(position, b"%d" % position)
        assert trio.current_time() - began <= (0.06 if idle_seconds < 1 else 1.01)


# -- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_after_effect", [False, True])
@pytest.mark.parametrize("cut_at", range(1, 5))
async def test_an_append_that_is_cut_anywhere_is_whole_or_not_there(
    items: MemoryItems, cut_at: int, is_after_effect: bool, autojump_clock: MockClock
) -> None:
    """A writer that dies between the three pieces and the head leaves no entry."""
    items.cut_at, items.cut_after_effect = cut_at, is_after_effect
    with pytest.raises(LogUnavailable):
        await opened(items).append(1, LARGE)
    items.heal()
    other = opened(items)
    is_there = cut_at == 4 and is_after_effect
    assert await other.read(1, 1) == ([LogEntry(1, LARGE)] if is_there else [])
    wanted = AppendResult.CONFLICT if is_there else AppendResult.APPENDED
    assert await other.append(1, OTHER) is wanted
    assert await other.read(1, 1) == [LogEntry(1, LARGE if is_there else OTHER)]


async def test_no_head_is_stored_without_a_piece(items: MemoryItems) -> None:
    put_piece, given = items.put_piece, list[Item]()

    async def one_fails(item: Item) -> None:
        given.append(item)
        if len(given) == 2:
            raise LogUnavailable("no answer")
        await put_piece(item)

    items.put_piece = one_fails  # type: ignore[method-assign]
    with pytest.raises(LogUnavailable):
        await opened(items).append(1, LARGE)
    assert len(given) == 3
    assert set(items.log) == {END}


async def test_pieces_whose_head_never_came_go_with_the_next_trim(items: MemoryItems) -> None:
    items.cut_at = 3
    with pytest.raises(LogUnavailable):
        await opened(items).append(1, LARGE)
    items.heal()
    log = opened(items)
    await log.append(1, OTHER)
    await log.append(2, LARGE)
    assert len(items.pieces) > 6
    await log.trim(2)
    assert len(items.pieces) == 3
    assert set(items.log) == {END, entry_name(2)}
    assert await log.read(2, 1) == [LogEntry(2, LARGE)]


@pytest.mark.parametrize("is_after_effect", [False, True])
async def test_a_snapshot_that_is_cut_anywhere_leaves_the_old_or_the_new_one(
    items: MemoryItems, is_after_effect: bool
) -> None:
    log = opened(items)
    await fill(log, 1, 2)
    old, new = [LARGE, b"old"], [OTHER, b"new"]
    await log.save_snapshot(1, old)
    requests, is_done = 0, False
    while not is_done:
        items.heal()
        requests += 1
        items.cut_at, items.cut_after_effect = requests, is_after_effect
        try:
            await log.save_snapshot(2, new)
            is_done = True
        except LogUnavailable:
            pass
        items.heal()
        assert await opened(items).load_snapshot() in ((1, old), (2, new))
    assert requests > 10
    assert await log.load_snapshot() == (2, new)


@pytest.mark.parametrize("is_after_effect", [False, True])
@pytest.mark.parametrize("cut_at", range(1, 12))
async def test_a_trim_that_is_cut_anywhere_lets_nobody_back(
    items: MemoryItems, cut_at: int, is_after_effect: bool
) -> None:
    log = opened(items)
    await fill(log, 1, 8)
    items.requests.clear()
    items.cut_at, items.cut_after_effect = cut_at, is_after_effect
    try:
        await log.trim(6)
        assert cut_at > 10
    except LogUnavailable:
        pass
    items.heal()
    for position in range(1, 9):
        late = await opened(items).append(position, b"late")
        assert late in (AppendResult.CONFLICT, AppendResult.TRIMMED)
    is_trimmed = items.log[END]["boundary"] == 6
    first = await opened(items).read(1, 1 << 20)
    assert first == (Trimmed(6) if is_trimmed else entries(1, 8))
    await log.trim(6)
    assert await all_entries(log, 6) == entries(6, 8)
    assert len(items.log) == 1 + 3


# -- lost answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [[True], [False]])
async def test_an_append_whose_answer_was_lost_is_done_once(
    items: MemoryItems, lost: list[bool], autojump_clock: MockClock
) -> None:
    items.lost_answers = lost
    log = opened(items)
    assert await log.append(1, b"mine") is AppendResult.APPENDED
    assert await all_entries(log, 1) == [LogEntry(1, b"mine")]


@pytest.mark.parametrize(
    ("lost", "repeated"),
    [
        ([True, True], AppendResult.CONFLICT),
        ([False, True], AppendResult.CONFLICT),
        ([True, False], AppendResult.CONFLICT),
        ([False, False], AppendResult.APPENDED),
    ],
)
async def test_an_append_without_an_answer_may_be_there(
    items: MemoryItems, lost: list[bool], repeated: AppendResult, autojump_clock: MockClock
) -> None:
    items.lost_answers = lost
    log = opened(items)
    with pytest.raises(LogUnavailable):
        await log.append(1, b"mine")
    assert await log.append(1, b"mine") is repeated
    assert await all_entries(log, 1) == [LogEntry(1, b"mine")]


async def test_another_writer_that_came_between_keeps_the_position(
    items: MemoryItems, autojump_clock: MockClock
) -> None:
    """An entry with the same payload but another nonce belongs to another writer."""
    items.lost_answers = [False]
    results: list[AppendResult] = []

    async def append() -> None:
        results.append(await opened(items).append(1, b"alike"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        await trio.testing.wait_all_tasks_blocked()
        assert await opened(items).append(1, b"alike") is AppendResult.APPENDED
    assert results == [AppendResult.CONFLICT]


async def test_an_append_that_hangs_ends_as_an_outage(
    items: MemoryItems, autojump_clock: MockClock
) -> None:
    items.held = trio.Event()
    with pytest.raises(LogUnavailable, match="within 15 s"):
        await opened(items).append(1, LARGE)
    assert trio.current_time() == 15


# -- races ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, PIECE_BYTES + 1, 1 << 20])
async def test_of_two_writers_one_wins_with_its_own_pieces(items: MemoryItems, size: int) -> None:
    results: dict[bytes, AppendResult] = {}

    async def append(payload: bytes) -> None:
        results[payload] = await opened(items).append(1, payload)

    items.held = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(append, LARGE[:size])
        nursery.start_soon(append, OTHER[:size])
        await trio.testing.wait_all_tasks_blocked()
        items.held.set()
    assert sorted(each.value for each in results.values()) == ["appended", "conflict"]
    (winner,) = [each for each, how in results.items() if how is AppendResult.APPENDED]
    assert await opened(items).read(1, 1) == [LogEntry(1, winner)]


async def test_a_writer_that_slept_across_a_trim_is_refused(items: MemoryItems) -> None:
    items.held = trio.Event()
    results: list[AppendResult] = []

    async def append() -> None:
        results.append(await opened(items).append(1, LARGE))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(append)
        await trio.testing.wait_all_tasks_blocked()
        log = opened(items)
        await fill(log, 1, 3)
        await log.trim(3)
        items.held.set()
    assert results == [AppendResult.TRIMMED]
    assert await log.read(3, 1) == entries(3, 3)


async def test_a_transaction_that_is_half_visible_is_read_whole(items: MemoryItems) -> None:
    """A read outside a transaction may see the new `end` before it sees the entry."""
    log = opened(items)
    await fill(log, 1, 3)
    items.unseen = {entry_name(3)}
    assert await log.read(3, 1 << 20) == entries(3, 3)
    assert await log.read(1, 1 << 20) == entries(1, 2)


async def test_a_read_does_not_run_ahead_of_the_end(
    items: MemoryItems, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read outside a transaction may also see an entry before it sees the new `end`."""
    log = opened(items)
    await fill(log, 1, 3)

    async def not_moved_yet(**_: object) -> End:
        await trio.lowlevel.checkpoint()
        return End(3, 1)

    with monkeypatch.context() as patch:
        patch.setattr(items, "end", not_moved_yet)
        assert await all_entries(log, 1) == entries(1, 2)
    assert await log.read(3, 1 << 20) == entries(3, 3)


async def test_a_read_that_a_trim_overtakes_says_so(items: MemoryItems) -> None:
    log = opened(items)
    await log.append(1, LARGE)
    await log.append(2, b"kept")
    page = items.page
    found = await page("entries/", "entries/~")

    async def overtaken(*_: object, **__: object) -> object:
        items.page = page  # type: ignore[method-assign]
        await log.trim(2)
        return found

    items.page = overtaken  # type: ignore[method-assign, assignment]
    assert await log.read(1, 1 << 20) == Trimmed(2)


async def test_a_trim_that_overtakes_the_last_look_says_so(items: MemoryItems) -> None:
    log = opened(items)
    await log.append(1, LARGE)
    await log.append(2, b"kept")
    items.unseen = {entry_name(1)}
    settled = items.settled

    async def overtaken(position: int) -> tuple[End, Attributes | None]:
        found = await settled(position)
        await log.trim(2)
        items.pieces.clear()
        return found

    items.settled = overtaken  # type: ignore[method-assign]
    assert await log.read(1, 1 << 20) == Trimmed(2)


# -- damage and misuse ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "value"), [("crc", 1), ("body", b"forged"), ("size", 3), ("pieces", 1)]
)
async def test_a_damaged_entry_is_noticed(
    items: MemoryItems, attribute: str, value: int | bytes
) -> None:
    log = opened(items)
    await fill(log, 1, 3)
    items.log[entry_name(2)] = {**items.log[entry_name(2)], attribute: value}
    with pytest.raises(LogCorrupt, match=r"entries/0*2"):
        await log.read(2, 1 << 20)
    assert await log.read(1, 1 << 20) == entries(1, 1)


async def test_an_entry_in_a_wrong_place_is_noticed(items: MemoryItems) -> None:
    log = opened(items)
    await fill(log, 1, 3)
    items.log[entry_name(2)] = items.log[entry_name(3)]
    with pytest.raises(LogCorrupt, match="fails its checksum"):
        await log.read(2, 1 << 20)


async def test_lost_items_are_noticed(items: MemoryItems) -> None:
    log = opened(items)
    await log.append(1, b"x")
    await log.append(2, LARGE)
    items.pieces.popitem()
    with pytest.raises(LogCorrupt, match="2 of 3 pieces"):
        await log.read(2, 1)
    del items.log[entry_name(1)]
    with pytest.raises(LogCorrupt, match="entry 1 is missing"):
        await log.read(1, 1)
    del items.log[END]
    with pytest.raises(LogCorrupt, match="'end'"):
        await log.read(1, 1)


async def test_an_entry_beyond_the_end_is_noticed(items: MemoryItems) -> None:
    items.log[entry_name(1)] = {"nonce": "x"}
    with pytest.raises(LogCorrupt, match="though the log ends before"):
        await opened(items).append(1, b"x")


async def test_a_trim_past_the_end_is_refused_unless_the_log_is_new(items: MemoryItems) -> None:
    log = opened(items)
    await log.trim(70)
    assert await log.read(69, 1) == Trimmed(70)
    await fill(log, 70, 71)
    with pytest.raises(LogMisuse, match="the log ends before"):
        await log.trim(73)
    await log.trim(72)
    with pytest.raises(LogMisuse, match="the log ends before"):
        await log.trim(73)
