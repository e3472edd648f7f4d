"""More checks of `log_contract`: calls that are cancelled, or that meet unfinished ones.

A call is cancelled at several moments.  With a very fast or slow log, the call may be complete or
not begun by then; the check then proves less, but its result is still valid.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.log.snapshots import save_verified
from tidegate_coordination.log_contract.checks import Bench, BrokenPromise, check_content, require

_MOMENTS_SECONDS: Final = (0.0, 0.001, 0.004, 0.016)
_GIVE_UP_SECONDS: Final = 30.0
_STALLED_WRITERS: Final = 4
_PAUSE_SECONDS: Final = 0.0005
_SAVE_ATTEMPTS: Final = 5
_SAVE_PAUSE_SECONDS: Final = 0.2
_REFUSED: Final = (AppendResult.CONFLICT, AppendResult.TRIMMED)


async def _append_cut_short(bench: Bench) -> str:
    """A cancelled append takes effect as a whole or not at all, and blocks no other call."""
    for number, seconds in enumerate(_MOMENTS_SECONDS):
        position, payload = bench.next_position, b"cut short %d " % number * 5000
        with trio.move_on_after(seconds):
            await bench.one.append(position, payload)
        with trio.move_on_after(_GIVE_UP_SECONDS) as patience:
            # The cancelled append may still be under way, so either payload may win.
            await bench.two.append(position, payload)
        require(
            not patience.cancelled_caught,
            f"after an append that was cancelled, the next one hung for {_GIVE_UP_SECONDS:g} s",
        )
        bench.written[position] = payload
        await check_content(bench, bench.one, position)
    await bench.append(b"after those that were cut short")
    return "a cancelled append is whole or not there, and the next one succeeds"


async def _wait_cut_short(bench: Bench) -> str:
    for seconds in _MOMENTS_SECONDS:
        with trio.move_on_after(seconds):
            await bench.two.wait(bench.next_position - 1, _GIVE_UP_SECONDS)
        await bench.append(b"after a wait that was cancelled", log=bench.two)
        with trio.move_on_after(_GIVE_UP_SECONDS) as woken:
            await bench.two.wait(bench.next_position - 2, 4 * _GIVE_UP_SECONDS)
        require(not woken.cancelled_caught, "after a wait that was cancelled, the next one slept")
    return "a cancelled wait leaves the next one as it should be"


async def _snapshot_cut_short(bench: Bench) -> str:
    """A save that is cancelled at any moment leaves the old snapshot or the whole new one."""
    await save_verified(bench.one, bench.next_position - 1, [b"old"])
    whole = await bench.one.load_snapshot()
    position = await bench.append(b"one more")
    newer = [bytes([number]) * 50_000 for number in range(8)]
    for seconds in _MOMENTS_SECONDS:
        # A cancelled attempt may still be under way, and block this one.
        with trio.move_on_after(seconds), suppress(LogUnavailable):
            await bench.one.save_snapshot(position, newer)
        found = await bench.two.load_snapshot()
        require(found in (whole, (position, newer)), "half a snapshot was loaded")
    await _save_at_last(bench, position, newer)
    return "a save that is cut short leaves the old one or the new one"


async def _save_at_last(bench: Bench, position: int, chunks: Sequence[bytes]) -> None:
    """Save; repeat it for as long as a cancelled attempt still blocks it."""
    for _ in range(_SAVE_ATTEMPTS):
        try:
            await save_verified(bench.one, position, chunks)
        except LogUnavailable:
            await trio.sleep(_SAVE_PAUSE_SECONDS)
        else:
            return
    await save_verified(bench.one, position, chunks)


async def _trim_under_way(bench: Bench) -> str:
    """While a trim runs, or was cancelled, no position below its end can be taken again."""
    for seconds in (*_MOMENTS_SECONDS, _GIVE_UP_SECONDS):
        begin = bench.next_position
        for number in range(8):
            await bench.append(b"before a trim %d" % number)
        boundary = bench.next_position - 1
        await save_verified(bench.one, boundary, [b"state at %d" % boundary])
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            for writer in range(_STALLED_WRITERS):
                log = (bench.one, bench.two)[writer % 2]
                nursery.start_soon(_stalled, log, begin + writer, done)
            with trio.move_on_after(seconds):
                await bench.one.trim(boundary)
            done.set()
        await _check_still_joined(bench, begin)
    await bench.one.trim(bench.next_position - 1)
    return "no writer that stalled took a position while a trim ran, or after it was cancelled"


async def _stalled(log: MetadataLog, position: int, done: trio.Event) -> None:
    """Append repeatedly at a position that was held long ago."""
    is_last = False
    while not is_last:
        is_last = done.is_set()
        await trio.sleep(_PAUSE_SECONDS)
        try:
            result = await log.append(position, b"stalled")
        except LogUnavailable:
            continue
        require(
            result in _REFUSED,
            f"an append at {position}, which was held, answered {result.value} during a trim",
        )


async def _check_still_joined(bench: Bench, begin: int) -> None:
    """Whether or not a trim took effect, reads from the first entry find no gap."""
    first = await _first_kept(bench, begin)
    try:
        await check_content(bench, bench.two, first)
    except BrokenPromise:
        # A cancelled trim may have taken effect only now.
        if (later := await _first_kept(bench, first)) == first:
            raise
        await check_content(bench, bench.two, later)


async def _first_kept(bench: Bench, begin: int) -> int:
    page = await bench.two.read(begin, 1)
    return page.first_position if isinstance(page, Trimmed) else begin


CHECKS: Final[Sequence[tuple[str, Callable[[Bench], Awaitable[str]]]]] = (
    ("append cut short", _append_cut_short),
    ("wait cut short", _wait_cut_short),
    ("snapshot cut short", _snapshot_cut_short),
    ("trim under way", _trim_under_way),
)
