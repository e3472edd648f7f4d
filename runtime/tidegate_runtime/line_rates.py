"""How many lines of a kind are written: a client that causes them must not fill a log.  Pure.

The next written line has the number of lines that were left out before it.
"""

from __future__ import annotations

from math import inf
from typing import Final

MINUTE: Final = 60.0
STRANGERS_LINES: Final = 100
"""A minute, of each kind that clients without a login can cause."""
LINES: Final = 1_000
"""A minute, of each other kind: more than any but a client or a bug causes."""
UNLIMITED: Final = inf
"""For lines that their own part bounds by a LineRate."""
MAX_KINDS: Final = 1_000


class LineRate:
    """At most `lines` in a window of `seconds`, which begins with its first line."""

    __slots__ = ("_began", "_left_out", "_lines", "_seconds", "_taken")

    def __init__(self, lines: float, seconds: float = MINUTE) -> None:
        self._lines = lines
        self._seconds = seconds
        self._began = -inf
        self._taken = self._left_out = 0

    def take(self, now: float) -> int | None:
        """Return how many lines were left out before this line; None: leave this line out, too.

        now: seconds of a monotonic clock.
        """
        if now - self._began >= self._seconds:
            self._began, self._taken = now, 0
        if self._taken >= self._lines:
            self._left_out += 1
            return None
        self._taken += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


class LineRates:
    """The rates of all kinds of lines: a kind is a logger and a text.

    left_out: the lines left out since the start.  Beyond MAX_KINDS, all further kinds with the same
    rate count as one kind.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._rates: dict[tuple[str, str] | float, LineRate] = {}

    def take(self, logger: str, text: str, lines_a_minute: float, now: float) -> int | None:
        """See LineRate."""
        kind: tuple[str, str] | float = (logger, text)
        rate = self._rates.get(kind)
        if rate is None:
            if len(self._rates) >= MAX_KINDS:
                kind = lines_a_minute
            rate = self._rates.setdefault(kind, LineRate(lines_a_minute))
        left_out = rate.take(now)
        if left_out is None:
            self.left_out += 1
        return left_out
