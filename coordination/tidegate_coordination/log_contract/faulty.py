"""A metadata log with the faults of real ones, for simulation and the fault kit.

One `FaultyLog` wraps the log for one gateway; several may wrap the same log.  The faulty log keeps
the contract: its faults are only those that the contract allows as `LogUnavailable`, as a slow
answer or as a late hint. A fault is counted once it has had its effect, so that a test can require
the fault.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)

_HUNG_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class LogFaults:
    """Rates from 0 to 1, each a share of the calls that it can strike. The three of append add up.

    ambiguous_append  done, and answered with LogUnavailable
    lost_append       not done, and answered with LogUnavailable
    late_append       answered with LogUnavailable, and done one to `late_calls` calls later
    read_error        reads and snapshot loads answer with LogUnavailable
    snapshot_error    saves and trims answer with LogUnavailable, done or not
    snapshot_damage   a load finds no snapshot whose checksums agree, and raises LogCorrupt
    lost_wakeup       a wait misses the growth and sleeps its whole time
    slow              a call takes up to `slow_seconds` more, before or after its effect
    hung              a call takes half a minute and is then answered with LogUnavailable, not done
    outage            every call is answered with LogUnavailable, not done
    """

    ambiguous_append: float = 0.0
    lost_append: float = 0.0
    late_append: float = 0.0
    read_error: float = 0.0
    snapshot_error: float = 0.0
    snapshot_damage: float = 0.0
    lost_wakeup: float = 0.0
    slow: float = 0.0
    hung: float = 0.0
    outage: float = 0.0
    slow_seconds: float = 5.0
    late_calls: int = 3


@dataclass(slots=True)
class _Late:
    """An append under way somewhere in the network."""

    position: int
    payload: bytes
    calls_left: int


def _never(kind: str) -> bool:
    return False


class FaultyLog:
    """`faults` may be changed at any time, also to none at all: `LogFaults()` heals.

    `landed` counts by the names of `LogFaults`; a late append that lost its position to another
    counts as `late_append_refused`; `count` is called for each. `is_due` is called for every call
    that a fault could strike; if it returns True, the fault strikes regardless of its rate.
    hanging: how many calls hang now, also after `faults` was healed.
    """

    def __init__(
        self,
        log: MetadataLog,
        faults: LogFaults,
        rng: random.Random,
        *,
        is_due: Callable[[str], bool] = _never,
        count: Callable[[str], object] = _never,
    ) -> None:
        self.faults = faults
        self.landed: Counter[str] = Counter()
        self.hanging = 0
        self._is_due = is_due
        self._tell = count
        self._log = log
        self._rng = rng
        self._late: list[_Late] = []

    @property
    def capabilities(self) -> LogCapabilities:
        return self._log.capabilities

    async def append(self, position: int, payload: bytes) -> AppendResult:
        after_seconds = await self._begin()
        match self._draw_append():
            case "lost_append":
                raise self._fault("lost_append")
            case "late_append":
                calls_left = self._rng.randint(1, self.faults.late_calls)
                self._late.append(_Late(position, bytes(payload), calls_left))
                raise LogUnavailable("injected: late_append")
            case fault:
                result = await self._log.append(position, payload)
        if fault == "ambiguous_append" and result is AppendResult.APPENDED:
            raise self._fault("ambiguous_append")
        await trio.sleep(after_seconds)
        return result

    def _draw_append(self) -> str:
        draw = self._rng.random()
        for kind in ("ambiguous_append", "lost_append", "late_append"):
            draw -= getattr(self.faults, kind)
            if draw < 0 or self._is_due(kind):
                return kind
        return ""

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        after_seconds = await self._begin()
        if self._strikes("read_error"):
            raise self._fault("read_error")
        entries = await self._log.read(from_position, max_bytes)
        await trio.sleep(after_seconds)
        return entries

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        if self.faults.outage and self._strikes("outage"):
            await trio.lowlevel.checkpoint()
            raise self._fault("outage")
        if not self._strikes("lost_wakeup"):
            return await self._log.wait(after_position, timeout_seconds)
        self._count("lost_wakeup")
        await trio.sleep(timeout_seconds)

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        await self._begin()
        done, fails = self._rng.random() < 0.5, self._strikes("snapshot_error")
        if done or not fails:
            await self._log.save_snapshot(position, chunks)
        if fails:
            raise self._fault("snapshot_error")

    async def load_snapshot(self) -> Snapshot | None:
        await self._begin()
        if self._strikes("read_error"):
            raise self._fault("read_error")
        if self._strikes("snapshot_damage"):
            self._count("snapshot_damage")
            raise LogCorrupt("injected: snapshot_damage")
        return await self._log.load_snapshot()

    async def trim(self, before_position: int) -> None:
        await self._begin()
        done, fails = self._rng.random() < 0.5, self._strikes("snapshot_error")
        if done or not fails:
            await self._log.trim(before_position)
        if fails:
            raise self._fault("snapshot_error")

    async def aclose(self) -> None:
        """Close the log; late appends land first, as those of a dead gateway would."""
        await self.land_late()
        await self._log.aclose()

    async def land_late(self) -> None:
        """Let every late append land now."""
        landing, self._late = self._late, []
        for late in landing:
            await self._land(late)

    async def _begin(self) -> float:
        """Before each call: land late appends, pass time. Return the seconds to wait after it."""
        for late in self._late:
            late.calls_left -= 1
        landing = [late for late in self._late if late.calls_left <= 0]
        self._late = [late for late in self._late if late.calls_left > 0]
        for late in landing:
            await self._land(late)
        if self.faults.outage and self._strikes("outage"):
            await trio.lowlevel.checkpoint()
            raise self._fault("outage")
        if self._strikes("hung"):
            await self._hang()
            raise self._fault("hung")
        return await self._dawdle()

    async def _hang(self) -> None:
        self.hanging += 1
        try:
            await trio.sleep(_HUNG_SECONDS)
        finally:
            self.hanging -= 1

    async def _land(self, late: _Late) -> None:
        result = await self._log.append(late.position, late.payload)
        taken = result is AppendResult.APPENDED
        self._count("late_append" if taken else "late_append_refused")

    async def _dawdle(self) -> float:
        strikes, before = self._strikes("slow"), self._rng.random() < 0.5
        seconds = self._rng.random() * self.faults.slow_seconds
        if not strikes:
            await trio.lowlevel.checkpoint()
            return 0.0
        self._count("slow")
        await trio.sleep(seconds if before else 0)
        return 0.0 if before else seconds

    def _strikes(self, kind: str) -> bool:
        rate: float = getattr(self.faults, kind)
        return self._rng.random() < rate or self._is_due(kind)

    def _fault(self, kind: str) -> LogUnavailable:
        self._count(kind)
        return LogUnavailable(f"injected: {kind}")

    def _count(self, kind: str) -> None:
        self.landed[kind] += 1
        self._tell(kind)
