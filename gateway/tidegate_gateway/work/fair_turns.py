"""Whose job runs next.  Pure.

Clients take turns.  A client has one running job at most, so it leaves the other threads to others,
however long its jobs are.  At the bound the client with the most waiting jobs loses its newest one:
a client that fills the queue keeps no other client out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Job = TypeVar("Job")


class QueueFull(Exception):
    """The client has as many waiting jobs as it may have.  Refuse the job; a later one may fit."""


class FairTurns(Generic[Job]):
    """See the module's head.

    Args:
      max_running: jobs at a time.
      max_waiting: jobs that wait, of all clients.
      max_of_client: jobs that wait, of one client.
    """

    def __init__(self, max_running: int, max_waiting: int, max_of_client: int) -> None:
        self._max_running: Final = max_running
        self._max_waiting: Final = max_waiting
        self._max_of_client: Final = max_of_client
        # In the order of turns.
        self._waiting: Final[OrderedDict[Hashable, deque[Job]]] = OrderedDict()
        self._running: Final[set[Hashable]] = set()
        self._count = 0

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return self._count

    @property
    def running(self) -> int:
        """Return how many jobs run."""
        return len(self._running)

    def add(self, client: Hashable, job: Job) -> Job | None:
        """Let a job wait; return the job that lost its place for it, if one did.

        Raises:
          QueueFull: it may not wait.
        """
        jobs = self._waiting.get(client)
        if jobs is not None and len(jobs) >= self._max_of_client:
            raise QueueFull
        loser = None if self._count < self._max_waiting else self._losing(client)
        if jobs is None:
            jobs = self._waiting[client] = deque()
        jobs.append(job)
        self._count += 1
        return loser

    def _losing(self, client: Hashable) -> Job:
        """Take the newest job of the client with the most; the asking client must have fewer."""
        most = max(self._waiting, key=lambda each: len(self._waiting[each]))
        if len(self._waiting[most]) <= len(self._waiting.get(client, ())) + 1:
            raise QueueFull
        return self._taken(most, self._waiting[most].pop())

    def leave(self, client: Hashable, job: Job) -> None:
        """Take a waiting job out of the line."""
        self._waiting[client].remove(job)
        self._taken(client, job)

    def next(self) -> Job | None:
        """Take the job that may run now; None if none may."""
        if len(self._running) >= self._max_running:
            return None
        client = next((each for each in self._waiting if each not in self._running), None)
        if client is None:
            return None
        self._running.add(client)
        self._waiting.move_to_end(client)
        return self._taken(client, self._waiting[client].popleft())

    def done(self, client: Hashable) -> None:
        """Note that a client's running job has ended."""
        self._running.remove(client)

    def _taken(self, client: Hashable, job: Job) -> Job:
        self._count -= 1
        if not self._waiting[client]:
            del self._waiting[client]
        return job
