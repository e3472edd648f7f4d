"""A metadata log that lies, loses and dawdles as real ones do: for simulation and the fault kit.

One `FaultyLog` wraps the log for one gateway; several may wrap the same log. It breaks nothing that
the contract promises: it only does what `LogUnavailable`, a slow answer or a late hint may mean.
A fault is counted when it has had its effect, so a test can demand that it landed.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from tidegate_coordination.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogEntry,
    LogUnavailable,
    MetadataLog,
    Snapshot,
    Trimmed,
)

_LATE_CALLS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class LogFaults:
    """Rates from 0 to 1, each a share of the calls that it can strike. The three of append add up.

    ambiguous_append  done, and answered with LogUnavailable
    lost_append       not done, and answered with LogUnavailable
    late_append       answered with LogUnavailable, and done one to three calls later
    read_error        reads and snapshot loads answer with LogUnavailable
    snapshot_error    saves and trims answer with LogUnavailable, done or not
    lost_wakeup       a wait misses the growth and sleeps its whole time
    slow              a call takes up to `slow_seconds` more, before or after its effect
    """

    ambiguous_append: float = 0.0
    lost_append: float = 0.0
    late_append: float = 0.0
    read_error: float = 0.0
    snapshot_error: float = 0.0
    lost_wakeup: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 5.0


@dataclass(slots=True)
class _Late:
    """An append under way somewhere in the network."""

    position: int
    payload: bytes
    calls_left: int


class FaultyLog:
    """`faults` may be changed at any time, also to none at all: `LogFaults()` heals.

    `landed` counts by the names of `LogFaults`; a late append that lost its position to another
    counts as `late_append_refused`.
    """

    def __init__(self, log: MetadataLog, faults: LogFaults, rng: random.Random) -> None:
        self.faults = faults
        self.landed: Counter[str] = Counter()
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
                calls_left = self._rng.randint(1, _LATE_CALLS_MAX)
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
            if draw < 0:
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
        if not self._strikes("lost_wakeup"):
            return await self._log.wait(after_position, timeout_seconds)
        self.landed["lost_wakeup"] += 1
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
        return await self._log.load_snapshot()

    async def trim(self, before_position: int) -> None:
        await self._begin()
        done, fails = self._rng.random() < 0.5, self._strikes("snapshot_error")
        if done or not fails:
            await self._log.trim(before_position)
        if fails:
            raise self._fault("snapshot_error")

    async def aclose(self) -> None:
        """Close the log; appends still under way land first, as those of a dead gateway would."""
        await self.land_late()
        await self._log.aclose()

    async def land_late(self) -> None:
        """Let every late append land now."""
        landing, self._late = self._late, []
        for late in landing:
            await self._land(late)

    async def _begin(self) -> float:
        """What precedes every call: late appends land, time passes. Returns seconds for after."""
        for late in self._late:
            late.calls_left -= 1
        landing = [late for late in self._late if late.calls_left <= 0]
        self._late = [late for late in self._late if late.calls_left > 0]
        for late in landing:
            await self._land(late)
        return await self._dawdle()

    async def _land(self, late: _Late) -> None:
        result = await self._log.append(late.position, late.payload)
        taken = result is AppendResult.APPENDED
        self.landed["late_append" if taken else "late_append_refused"] += 1

    async def _dawdle(self) -> float:
        strikes, before = self._strikes("slow"), self._rng.random() < 0.5
        seconds = self._rng.random() * self.faults.slow_seconds
        if not strikes:
            await trio.lowlevel.checkpoint()
            return 0.0
        self.landed["slow"] += 1
        await trio.sleep(seconds if before else 0)
        return 0.0 if before else seconds

    def _strikes(self, kind: str) -> bool:
        rate: float = getattr(self.faults, kind)
        return self._rng.random() < rate

    def _fault(self, kind: str) -> LogUnavailable:
        self.landed[kind] += 1
        return LogUnavailable(f"injected: {kind}")
