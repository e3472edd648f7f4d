"""Chooses the client whose job runs next.  Pure.

Clients take turns.  A client has at most one running job, so the other threads stay free for other
clients, however long its jobs run.  The number of waiting jobs, and the bytes that they hold, have
limits.  At a limit, the client that uses most of it loses its newest job.  So a client that fills
the queue does not keep other clients out.  A job that is larger than a limit waits alone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

Job = TypeVar("Job")


class Bounds(NamedTuple):
    """Limits of the waiting jobs, of all clients or of one client."""

    jobs: int
    size_bytes: int


class QueueFull(Exception):
    """The client has as many waiting jobs as it may have.  Refuse the job; a later one may fit."""


@dataclass(slots=True)
class _Line(Generic[Job]):
    """The waiting jobs of one client with their sizes, and the sum of the sizes."""

    jobs: deque[tuple[Job, int]] = field(default_factory=deque[tuple[Job, int]])
    size_bytes: int = 0

    def has_room(self, size_bytes: int, bounds: Bounds) -> bool:
        """Return whether another job fits."""
        return len(self.jobs) < bounds.jobs and self.size_bytes + size_bytes <= bounds.size_bytes


class FairTurns(Generic[Job]):
    """See the module's head.

    Args:
      max_running: how many jobs run at a time.
      of_all, of_client: the limits for all clients, and for one client.
    """

    def __init__(self, max_running: int, of_all: Bounds, of_client: Bounds) -> None:
        self._max_running: Final = max_running
        self._of_all: Final = of_all
        self._of_client: Final = of_client
        # Clients in the order of their turns.
        self._waiting: Final[OrderedDict[Hashable, _Line[Job]]] = OrderedDict()
        self._running: Final[set[Hashable]] = set()
        self._count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return self._count

    @property
    def running(self) -> int:
        """Return how many jobs run."""
        return len(self._running)

    def add(self, client: Hashable, job: Job, size_bytes: int = 0) -> list[Job]:
        """Let a job wait; return the jobs that lost their places for it.

        size_bytes: the bytes that the job holds while it waits.

        Raises:
          QueueFull: the job may not wait.
        """
        own = self._waiting.get(client) or _Line()
        if own.jobs and not own.has_room(size_bytes, self._of_client):
            raise QueueFull
        losers = self._losers(own, size_bytes)
        line = self._waiting.setdefault(client, own)
        line.jobs.append((job, size_bytes))
        self._grow(line, 1, size_bytes)
        return losers

    def _losers(self, own: _Line[Job], size_bytes: int) -> list[Job]:
        """Remove the newest jobs of the client that has most, until a new job fits.

        own: the line of the new job's client, which must have less than that client.
        """
        count = max(self._count + 1 - self._of_all.jobs, 0)
        excess_bytes = max(self.size_bytes + size_bytes - self._of_all.size_bytes, 0)
        if not self._count or not (count or excess_bytes):
            return []
        if excess_bytes:
            client, most = max(self._waiting.items(), key=lambda each: each[1].size_bytes)
            has_more = most.size_bytes > own.size_bytes + size_bytes
        else:
            client, most = max(self._waiting.items(), key=lambda each: len(each[1].jobs))
            has_more = len(most.jobs) > len(own.jobs) + 1
        if not has_more or most.size_bytes < excess_bytes:
            raise QueueFull
        losers: list[Job] = []
        while len(losers) < count or excess_bytes > 0:
            job, freed_bytes = most.jobs.pop()
            losers.append(job)
            self._shrink(client, most, freed_bytes)
            excess_bytes -= freed_bytes
        return losers

    def leave(self, client: Hashable, job: Job) -> None:
        """Take a waiting job out of the line."""
        line = self._waiting[client]
        row = next(each for each in line.jobs if each[0] is job)
        line.jobs.remove(row)
        self._shrink(client, line, row[1])

    def next(self) -> Job | None:
        """Take the next job that may run now; None if no job may run."""
        if len(self._running) >= self._max_running:
            return None
        client = next((each for each in self._waiting if each not in self._running), None)
        if client is None:
            return None
        self._running.add(client)
        self._waiting.move_to_end(client)
        line = self._waiting[client]
        job, size_bytes = line.jobs.popleft()
        self._shrink(client, line, size_bytes)
        return job

    def done(self, client: Hashable) -> None:
        """Note that a client's running job has ended."""
        self._running.remove(client)

    def _shrink(self, client: Hashable, line: _Line[Job], size_bytes: int) -> None:
        self._grow(line, -1, -size_bytes)
        if not line.jobs:
            del self._waiting[client]

    def _grow(self, line: _Line[Job], jobs: int, size_bytes: int) -> None:
        self._count += jobs
        self.size_bytes += size_bytes
        line.size_bytes += size_bytes
