"""The checks of `log_contract`, each of which tests a promise of `metadata_log.MetadataLog`."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from tidegate_coordination.log.metadata_log import (
    FIRST_POSITION,
    AppendResult,
    LogCorrupt,
    LogEntry,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.log.snapshots import save_verified, trim_below_verified
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults

OpenLog = Callable[[], Awaitable[MetadataLog]]

_WAKE_SECONDS: Final = 30.0
_PAGE_BYTES: Final = 1 << 20
_WRITERS: Final = 8
_ROUNDS: Final = 12
_SOAK_FAULTS: Final = LogFaults(
    ambiguous_append=0.15,
    lost_append=0.1,
    late_append=0.15,
    read_error=0.1,
    lost_wakeup=0.1,
    slow=0.05,
    slow_seconds=0.02,
)


class BrokenPromise(Exception):
    """A promise that does not hold; the text says which."""


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenPromise(otherwise)


@dataclass(slots=True)
class Bench:
    """Two handles on the log under test, and its expected entries."""

    open_log: OpenLog
    one: MetadataLog
    two: MetadataLog
    written: dict[int, bytes] = field(default_factory=dict[int, bytes])

    @property
    def next_position(self) -> int:
        return max(self.written, default=FIRST_POSITION - 1) + 1

    async def append(self, payload: bytes, *, log: MetadataLog | None = None) -> int:
        """Append at the end; it must succeed."""
        position = self.next_position
        result = await (log or self.one).append(position, payload)
        require(
            result is AppendResult.APPENDED,
            f"append at the free position {position} answered {result.value}",
        )
        self.written[position] = payload
        return position

    async def reopen(self) -> None:
        await self.aclose()
        self.one, self.two = await self.open_log(), await self.open_log()

    async def aclose(self) -> None:
        await self.one.aclose()
        await self.two.aclose()


async def _read_all(log: MetadataLog, from_position: int) -> list[LogEntry]:
    """Page through the log; every page must join the one before."""
    entries: list[LogEntry] = []
    while page := await log.read(from_position + len(entries), _PAGE_BYTES):
        require(not isinstance(page, Trimmed), f"entries from {from_position} on were trimmed")
        assert not isinstance(page, Trimmed)
        for entry in page:
            expected = from_position + len(entries)
            require(
                entry.position == expected,
                f"read gave position {entry.position} where {expected} belongs: a gap or disorder",
            )
            entries.append(entry)
    return entries


async def check_content(bench: Bench, log: MetadataLog, from_position: int) -> None:
    """Check that the log holds exactly the written entries from there on."""
    found = {each.position: each.payload for each in await _read_all(log, from_position)}
    wanted = {at: what for at, what in bench.written.items() if at >= from_position}
    for position in sorted(wanted.keys() | found.keys()):
        require(position in found, f"the entry appended at {position} is gone")
        require(position in wanted, f"position {position} holds an entry that was never appended")
        require(found[position] == wanted[position], f"position {position} holds another payload")


async def starts_empty(bench: Bench) -> str:
    empty = await bench.one.read(FIRST_POSITION, _PAGE_BYTES) == []
    if not empty or await bench.one.load_snapshot() is not None:
        raise BrokenPromise(
            "the log is not empty: the checks need a fresh one, and would spoil this one"
        )
    return "no entry, no snapshot"


async def _order_and_no_gaps(bench: Bench) -> str:
    first = bench.next_position
    await check_content(bench, bench.two, first)
    for payload in (b"", b"\0", bytes(range(256)), b"x" * 10_000, b"y" * 10_000):
        await bench.append(payload)
    await check_content(bench, bench.one, first)
    # The second handle has been at the log's end, and may assume that the log still ends there.
    for reader, position, max_bytes in (
        (bench.two, first, 0),
        (bench.one, first + 3, 0),
        (bench.one, first + 3, 1),
    ):
        page = await reader.read(position, max_bytes)
        is_one = not isinstance(page, Trimmed) and len(page) == 1
        require(is_one, "a small read gave no single entry")
    page = await bench.one.read(first + 3, 19_999)
    require(not isinstance(page, Trimmed) and len(page) == 1, "a read went over its max_bytes")
    end = await bench.one.read(bench.next_position, _PAGE_BYTES)
    require(end == [], "a read at the end of the log is not empty")
    return f"{len(bench.written)} entries"


async def _gap_refused(bench: Bench) -> str:
    position = bench.next_position + 1
    try:
        result = await bench.one.append(position, b"after a gap")
    except (LogCorrupt, LogMisuse):
        await check_content(bench, bench.two, FIRST_POSITION)
        return "an append past the end is refused"
    raise BrokenPromise(f"append at {position}, which has no predecessor, answered {result.value}")


async def _read_past_end_refused(bench: Bench) -> str:
    try:
        await bench.one.read(bench.next_position + 1, _PAGE_BYTES)
    except LogCorrupt:
        return "a log that ends before an entry already read is noticed"
    raise BrokenPromise(
        "a read after a missing entry did not raise LogCorrupt: lost entries go unseen"
    )


async def _one_winner(bench: Bench) -> str:
    """Many writers race for each position through two handles."""
    for _ in range(_ROUNDS):
        position = bench.next_position
        results: dict[bytes, AppendResult] = {}

        async def write(writer: int, position: int, results: dict[bytes, AppendResult]) -> None:
            payload = f"writer {writer} at {position}".encode()
            log = (bench.one, bench.two)[writer % 2]
            results[payload] = await log.append(position, payload)

        async with trio.open_nursery() as nursery:
            for writer in range(_WRITERS):
                nursery.start_soon(write, writer, position, results)
        winners = [each for each, how in results.items() if how is AppendResult.APPENDED]
        require(len(winners) == 1, f"{len(winners)} writers won position {position}, not one")
        bench.written[position] = winners[0]
        losers = Counter(how.value for how in results.values())
        require(losers["conflict"] == _WRITERS - 1, f"the losers got {dict(losers)}")
    await check_content(bench, bench.one, FIRST_POSITION)
    return f"{_ROUNDS} positions, {_WRITERS} writers, one winner each"


async def _held_position_keeps(bench: Bench) -> str:
    for log in (bench.one, bench.two):
        for position in (FIRST_POSITION, bench.next_position - 1):
            result = await log.append(position, b"usurper")
            require(
                result is AppendResult.CONFLICT,
                f"append at the held position {position} answered {result.value}",
            )
    await check_content(bench, bench.one, FIRST_POSITION)
    return "a held position answers conflict and keeps its payload"


async def _reads_after_append(bench: Bench) -> str:
    for turn in range(_ROUNDS):
        writer, reader = (bench.one, bench.two) if turn % 2 else (bench.two, bench.one)
        position = await bench.append(f"turn {turn}".encode(), log=writer)
        await check_content(bench, reader, position)
    return "another handle sees an append at once"


async def _wait_wakes(bench: Bench) -> str:
    for writer in (bench.one, bench.two):
        with trio.move_on_after(_WAKE_SECONDS) as woken:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.two.wait, bench.next_position - 1, 4 * _WAKE_SECONDS)
                await trio.lowlevel.checkpoint()
                await bench.append(b"wake up", log=writer)
        require(not woken.cancelled_caught, f"wait slept for {_WAKE_SECONDS:g} s after an append")
    with trio.move_on_after(_WAKE_SECONDS) as ended:
        await bench.one.wait(bench.next_position - 2, 4 * _WAKE_SECONDS)
        await bench.one.wait(bench.next_position - 1, 0.01)
    require(not ended.cancelled_caught, "wait did not keep its time-out, or slept over an entry")
    return "wait wakes on growth, and ends at its time-out"


async def _unknown_outcome(bench: Bench) -> str:
    faulty = FaultyLog(bench.one, LogFaults(ambiguous_append=1.0), random.Random(0))
    position, payload = bench.next_position, b"appended, but the answer was lost"
    try:
        await faulty.append(position, payload)
    except LogUnavailable:
        bench.written[position] = payload
    result = await bench.one.append(position, payload)
    require(
        result is AppendResult.CONFLICT,
        f"repeating an append that had succeeded answered {result.value}",
    )
    await check_content(bench, bench.two, FIRST_POSITION)
    return "a repeat conflicts with one's own entry, which can be read"


async def _max_entry_kept(bench: Bench) -> str:
    limit = bench.one.capabilities.max_entry_bytes
    payload = random.Random(1).randbytes(limit)
    position = await bench.append(payload)
    await check_content(bench, bench.two, position)
    try:
        await bench.one.append(bench.next_position, payload + b"!")
    except LogMisuse:
        return f"{limit} bytes are kept, one more is refused"
    raise BrokenPromise(f"an entry of {limit + 1} bytes was not refused with LogMisuse")


async def _survives_faults(bench: Bench) -> str:
    """Writers that follow the rules of LogUnavailable place each payload exactly once."""
    first = bench.next_position
    placed: dict[int, bytes] = {}
    logs = [
        FaultyLog((bench.one, bench.two)[writer % 2], _SOAK_FAULTS, random.Random(writer))
        for writer in range(_WRITERS // 2)
    ]
    async with trio.open_nursery() as nursery:
        for writer, log in enumerate(logs):
            nursery.start_soon(_write_under_faults, log, writer, first, placed)
    bench.written.update(placed)
    await check_content(bench, bench.one, FIRST_POSITION)
    landed = sum((log.landed for log in logs), Counter[str]())
    require(landed.total() > 0, "no fault landed, so nothing was shown")
    return f"{len(placed)} entries by {len(logs)} writers, each once, under {landed.total()} faults"


async def _write_under_faults(
    log: FaultyLog, writer: int, position: int, placed: dict[int, bytes]
) -> None:
    for number in range(_ROUNDS):
        payload = f"soak {writer}.{number}".encode()
        while not await _place(log, position, payload):
            position += 1
        require(position not in placed, f"two writers were given position {position}")
        placed[position] = payload
    await log.land_late()


async def _place(log: FaultyLog, position: int, payload: bytes) -> bool:
    """Return whether this writer holds the position; repeat the append until that is certain."""
    while True:
        try:
            if await log.append(position, payload) is AppendResult.APPENDED:
                return True
            page = await log.read(position, 1)
        except LogUnavailable:
            continue
        require(bool(page), f"position {position} answered conflict, and then held nothing")
        return not isinstance(page, Trimmed) and page[0].payload == payload


async def _reopen_keeps(bench: Bench) -> str:
    await bench.reopen()
    await check_content(bench, bench.one, FIRST_POSITION)
    await bench.append(b"after opening again", log=bench.two)
    return f"{len(bench.written)} entries are there after opening again"


async def _snapshot_whole(bench: Bench) -> str:
    position = bench.next_position - 1
    rng = random.Random(2)
    chunks = [rng.randbytes(size) for size in (0, 1, 70_000, 300_000)]
    await save_verified(bench.one, position, chunks)
    for saved in ([], [b"again"], chunks):  # a later snapshot of the same position replaces it
        await save_verified(bench.two, position, saved)
    await bench.one.save_snapshot(position - 1, [b"older"])
    await bench.reopen()
    found = await bench.one.load_snapshot()
    require(found is not None, "the snapshot is gone after opening again")
    require(found == (position, chunks), "not the snapshot of the highest position was loaded")
    return "the newest one is loaded as it was saved"


async def _trim_holds(bench: Bench) -> str:
    """This includes the trap of create-if-absent.

    While a writer stalls, the name that it creates is deleted.
    """
    stalled_at = bench.next_position
    for number in range(5):
        await bench.append(b"while another writer stalls %d" % number)
    await save_verified(bench.one, bench.next_position - 2, [b"state"])
    boundary = await trim_below_verified(bench.one)
    for position in [position for position in bench.written if position < boundary]:
        del bench.written[position]
    await _check_trimmed(bench, boundary, stalled_at)
    await bench.one.trim(FIRST_POSITION)
    await bench.reopen()
    await _check_trimmed(bench, boundary, stalled_at)
    await bench.append(b"after the trim", log=bench.two)
    await check_content(bench, bench.one, boundary)
    return f"positions below {boundary} are gone for readers and refused to a writer that stalled"


async def _check_trimmed(bench: Bench, boundary: int, stalled_at: int) -> None:
    for log in (bench.two, bench.one):
        for position in (FIRST_POSITION, stalled_at, boundary - 1):
            late = await log.append(position, b"late")
            require(
                late is AppendResult.TRIMMED,
                f"an append at {position}, below the boundary {boundary}, answered {late.value}",
            )
            gone = await log.read(position, 1)
            require(gone == Trimmed(boundary), f"a read at {position} does not say Trimmed")
    await check_content(bench, bench.two, boundary)


async def _trim_past_end_refused(bench: Bench) -> str:
    try:
        await bench.one.trim(bench.next_position + 1)
    except LogMisuse:
        await bench.append(b"still here")
        return "a boundary beyond the end is refused"
    raise BrokenPromise("a trim beyond the end of the log was not refused with LogMisuse")


async def _trim_to_end(bench: Bench) -> str:
    await bench.one.save_snapshot(bench.next_position - 1, [b"everything"])
    boundary = await trim_below_verified(bench.two)
    require(await bench.one.read(boundary, 1) == [], "a log trimmed to its end is not empty there")
    position = await bench.append(b"first after all", log=bench.one)
    require(position == boundary, f"appended at {position} instead of {boundary}")
    await check_content(bench, bench.two, boundary)
    return "a log without entries continues at its boundary"


CHECKS: Final[Sequence[tuple[str, Callable[[Bench], Awaitable[str]]]]] = (
    ("order and no gaps", _order_and_no_gaps),
    ("gap refused", _gap_refused),
    ("lost entries noticed", _read_past_end_refused),
    ("compare-and-set", _one_winner),
    ("held position keeps", _held_position_keeps),
    ("reads after append", _reads_after_append),
    ("wait wakes", _wait_wakes),
    ("unknown outcome", _unknown_outcome),
    ("max entry size kept", _max_entry_kept),
    ("survives faults", _survives_faults),
    ("reopen keeps all", _reopen_keeps),
    ("snapshot whole", _snapshot_whole),
    ("trim boundary", _trim_holds),
    ("trim past the end", _trim_past_end_refused),
    ("trim to the end", _trim_to_end),
)
