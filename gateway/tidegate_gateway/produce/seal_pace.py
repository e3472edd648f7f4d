"""Decides when to seal the open WAL object.  Pure: times are arguments, in seconds of one clock.

An object takes about as much work of the event loop, the store and the log as a hundred requests.
So a busy gateway should make few objects, and an idle one should not wait.  Five reasons can delay
a seal; a full object is never delayed:

- an object was sealed a moment ago and is in flight: between two seals there is a part of a PUT's
  duration, and requests of this time share an object;
- the answers of an object were just sent while other requests waited: the clients that got answers
  send their next requests at once, and these join the waiting ones;
- a request is being received: earlier requests wait a little, so that it joins them;
- the store's requests cost money, and at the present rate the object will be large enough to need
  no tokens before `linger`: it fills as long as bytes arrive.  Clients that wait for answers send
  no bytes, so this does not delay them;
- the request budget is used up (put_budget.py), up to `linger`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from ..network.inflow import Inflow
from .put_budget import PutBudget

# An object takes some milliseconds of CPU, so there are at most about a hundred a second.
LEAST_SECONDS = 0.008
MOST_SECONDS = 0.025
PACE_SHARE = 0.25
# If no byte arrives for this part of a PUT's duration, the stream of requests has stopped.  While
# another object is in flight, the time is STREAM times as long, since streaming clients may pause.
QUIET_SHARE = 0.125
STREAM = 3
# A shorter wait counts as none: on the clock its end may equal the present time.
SHORTEST_SECONDS = 1e-6
LEAST_QUIET_SECONDS = 0.001
MOST_QUIET_SECONDS = 0.005
# The weight of a new value in the measured PUT duration and byte rate.
PUT_WEIGHT = 0.2
RATE_SECONDS = 0.5


@dataclass(slots=True)
class SealPace:
    """Decides how long the open object waits.

    efficient_bytes: objects of this size need no tokens.  inflow: shared with the connections.
    """

    budget: PutBudget
    inflow: Inflow
    efficient_bytes: int
    linger_seconds: float
    put_seconds: float = 0.0
    _rate: float = 0.0
    _sealed_at: float = -1.0
    _opened_at: float = 0.0
    _answered_at: float = -1.0

    def opened(self, now: float) -> None:
        """Note the first batch of an object."""
        self._opened_at = now

    def sealed(self, size_bytes: int, now: float, *, is_paid: bool = True) -> None:
        """Take the tokens of a sealed object that needs a PUT, and measure the rate of bytes."""
        if is_paid:
            self.budget.take(size_bytes, now)
        passed = max(now - self._sealed_at, LEAST_SECONDS)
        self._rate += (size_bytes / passed - self._rate) * (1 - exp(-passed / RATE_SECONDS))
        self._sealed_at = now

    def answered(self, now: float) -> None:
        """Note that the answers of an earlier object were sent while this one was open."""
        self._answered_at = now

    def stored(self, seconds: float) -> None:
        """Note the duration of a PUT."""
        weight = PUT_WEIGHT if self.put_seconds else 1.0
        self.put_seconds += (seconds - self.put_seconds) * weight

    def pause_seconds(self, size_bytes: int, now: float, *, is_alone: bool) -> float:
        """Return how long to wait before the seal, or before the next call; 0 to seal now.

        is_alone: no earlier object is in flight.
        """
        pace = min(max(self.put_seconds * PACE_SHARE, LEAST_SECONDS), MOST_SECONDS)
        floor = 0.0 if is_alone else self._sealed_at + pace - now
        if size_bytes >= self.efficient_bytes:
            return max(floor, 0.0)
        quiet = self.put_seconds * QUIET_SHARE
        quiet = min(max(quiet, LEAST_QUIET_SECONDS), MOST_QUIET_SECONDS)
        left = self._opened_at + self.linger_seconds - now
        if self._will_be_free(size_bytes, left):
            received_at = max(self.inflow.partial_at, self.inflow.whole_at)
            flow = min(received_at + (quiet if is_alone else STREAM * quiet) - now, left)
        else:
            began_at = max(self._opened_at, self._answered_at)
            until = min(self.inflow.partial_at + quiet, began_at + pace)
            flow = until - now if self.inflow.is_under_way else 0.0
        wait_for_budget = min(self.budget.wait_seconds(size_bytes, now), left)
        echo = min(self._answered_at + quiet - now, left)
        wait = max(floor, flow, echo, wait_for_budget)
        return wait if wait > SHORTEST_SECONDS else 0.0

    def _will_be_free(self, size_bytes: int, left_seconds: float) -> bool:
        missing = self.efficient_bytes - size_bytes
        return self.budget.is_limited and left_seconds > 0 and missing <= self._rate * left_seconds
