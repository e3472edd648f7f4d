"""The loop of a campaign: choose an input, damage it, run it, keep it if it reached new code.

The seed decides everything: the same seed and number of executions make the same inputs.  Only the
bound on time reads clocks, and it never decides which input is next.

A finding is any exception that a target raises, MemoryError and RecursionError included, or an
input that takes more memory or time than its size allows.
"""

from __future__ import annotations

import gc
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from .cover import Marks
from .mutations import mutate

# Tracing memory makes an execution some five times slower.
MEMORY_SAMPLE = 256
MAX_CORPUS = 20_000
MAX_FINDINGS = 50


class Target(Protocol):
    """One decoder or reader.

    head_bytes: the first bytes of an input, which the campaign does not damage.  fixed_bytes,
    bytes_per_byte: the memory that an execution may allocate at any moment.  seconds_per_kib: the
    time that it may take for each KiB.
    """

    head_bytes: int
    fixed_bytes: int
    bytes_per_byte: int
    seconds_per_kib: float

    def seeds(self, rng: Random) -> list[bytes]:
        """Return valid inputs."""
        ...

    def repair(self, rng: Random, data: bytearray) -> None:
        """Mend parts that would stop a damaged input early, such as a CRC; not always."""
        ...

    def run(self, data: bytes) -> None:
        """Raise on a bug; swallow the documented exceptions."""
        ...


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of a bound on time, in seconds.  cpu: of this thread alone."""

    elapsed: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.thread_time


@dataclass(frozen=True, slots=True)
class Finding:
    """signature: identifies the bug; text: a description; data: the input."""

    signature: str
    text: str
    data: bytes


@dataclass(slots=True)
class Tally:
    """The counts of a campaign.

    peak_ratio: most memory above the fixed part, per byte of input.  slowest: seconds, size.
    """

    executions: int = 0
    seconds: float = 0.0
    seeds: int = 0
    corpus: int = 0
    peak_bytes: int = 0
    slowest: tuple[float, int] = (0.0, 0)
    findings: dict[str, Finding] = field(default_factory=dict[str, Finding])


class Chooser:
    """Chooses inputs.  grown: the inputs that reached new code, the newest last."""

    def __init__(self, target: Target, rng: Random, stored: list[bytes]) -> None:
        self._target = target
        self._rng = rng
        self.seeds = target.seeds(rng)
        self.grown: list[bytes] = list(stored)
        self._fresh: Iterator[bytes] = iter((*self.seeds, *stored))

    def next(self) -> bytes:
        """Return the next input: first the seeds unchanged, then damaged inputs."""
        for seed in self._fresh:
            return seed
        rng, grown = self._rng, self.grown
        others = grown if grown and rng.random() < 0.6 else self.seeds
        # It chooses newer inputs more often.
        place = int(len(others) * (1 - rng.random() ** 2)) if others is grown else None
        base = others[min(place, len(others) - 1)] if place is not None else rng.choice(others)
        return self.damaged(base, others)

    def damaged(self, base: bytes, others: list[bytes]) -> bytes:
        """Return base with damage."""
        data = bytearray(base)
        mutate(self._rng, data, others, self._target.head_bytes)
        self._target.repair(self._rng, data)
        return bytes(data)

    def keep(self, data: bytes) -> None:
        """Keep an input that reached new code."""
        if len(self.grown) < MAX_CORPUS:
            self.grown.append(data)


class Campaign:
    """Runs one target."""

    def __init__(
        self,
        target: Target,
        marks: Marks,
        seed: int,
        stored: list[bytes],
        clocks: Clocks = Clocks(),
    ) -> None:
        self._target = target
        self._marks = marks
        self._clocks = clocks
        self.chooser = Chooser(target, Random(seed), stored)
        self.tally = Tally(seeds=len(self.chooser.seeds))
        self._reached = marks.reached

    def run(self, goes_on: Callable[[int], bool]) -> Tally:
        """Run until goes_on(executions) says no."""
        started, tally = self._clocks.elapsed(), self.tally
        table, chooser = self._marks.table, self.chooser
        seen = bytearray()
        gc.disable()  # collect only below, so that no input is charged for a pause
        while goes_on(tally.executions) and len(tally.findings) < MAX_FINDINGS:
            data = chooser.next()
            self._execute(data, traced=tally.executions % MEMORY_SAMPLE == 0)
            tally.executions += 1
            if table != seen:  # a comparison takes 2 us, and a count 60 us
                seen = table[:]
                if self._marks.reached > self._reached:
                    self._reached = self._marks.reached
                    chooser.keep(data)
                    self._execute(data, traced=True)
            if tally.executions % 4096 == 0:
                gc.collect()
        gc.enable()
        tally.seconds = self._clocks.elapsed() - started
        tally.corpus = len(chooser.grown)
        return tally

    def replay(self, inputs: list[bytes]) -> Tally:
        """Run these inputs, nothing else."""
        for data in inputs:
            self._execute(data, traced=len(data) % 16 == 0)
            self.tally.executions += 1
        return self.tally

    def _execute(self, data: bytes, *, traced: bool) -> None:
        if traced:
            tracemalloc.start()
        started = self._clocks.elapsed()
        try:
            self._target.run(data)
        except Exception as error:
            self._found(finding_of(error, data))
        took = self._clocks.elapsed() - started
        if traced:
            self._look_at_memory(data)
        elif took > self._allowed_seconds(data):
            self._look_at_time(data, took)

    def _look_at_memory(self, data: bytes) -> None:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.tally.peak_bytes = max(self.tally.peak_bytes, peak)
        allowed = self._target.fixed_bytes + len(data) * self._target.bytes_per_byte
        if peak > allowed:
            text = f"{len(data)} bytes of input took {peak} bytes of memory, {allowed} are allowed"
            self._found(Finding("memory", text, data))

    def _allowed_seconds(self, data: bytes) -> float:
        return 0.05 + self._target.seconds_per_kib * len(data) / 1024

    def _look_at_time(self, data: bytes, took: float) -> None:
        """Measure again: a busy machine may have slowed the first run, so the least CPU time of
        three counts.
        """
        for _ in range(3):
            started = self._clocks.cpu()
            with suppress(Exception):  # already reported
                self._target.run(data)
            took = min(took, self._clocks.cpu() - started)
        self.tally.slowest = max(self.tally.slowest, (took, len(data)))
        if took > self._allowed_seconds(data):
            self._found(Finding("time", f"{len(data)} bytes of input took {took:.3f} s", data))

    def _found(self, finding: Finding) -> None:
        self.tally.findings.setdefault(finding.signature, finding)


def finding_of(error: BaseException, data: bytes) -> Finding:
    """Return the finding of an exception; its signature is the type and the innermost lines."""
    stack = traceback.extract_tb(error.__traceback__)
    frames = [each for each in stack if each.filename != __file__][-3:]
    where = " < ".join(f"{each.filename.rsplit('/', 1)[-1]}:{each.lineno}" for each in frames[::-1])
    text = "".join(traceback.format_exception(error))
    return Finding(f"{type(error).__name__} at {where}", text, data)


def minimised(target: Target, finding: Finding, rounds: int = 2000) -> Finding:
    """Return a finding of the same signature with as few bytes as a simple search finds."""
    best, size = finding, max(len(finding.data) // 2, 1)
    while size and rounds:
        for start in range(0, len(best.data), size):
            rounds -= 1
            shorter = best.data[:start] + best.data[start + size :]
            found = _outcome(target, shorter)
            if found is not None and found.signature == finding.signature:
                best = found
                break
            if not rounds:
                break
        else:
            size //= 2
    return best


def _outcome(target: Target, data: bytes) -> Finding | None:
    try:
        target.run(data)
    except Exception as error:
        return finding_of(error, data)
    return None
