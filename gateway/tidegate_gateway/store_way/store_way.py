"""The state of this gateway's way to the object store, judged by its own calls.  Pure.

The WAL writer and the reader note here how their calls end.  A way is broken once calls have failed
for BROKEN_SECONDS and none has succeeded.  A hanging call counts when its attempt ends, as a
failure since its begin.  A failed read proves little, since the fault may be one truncated object.
So it only leads to a trial read of an object that exists in every prefix (store_watch.py), and the
outcome of the trial read counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Final

BROKEN_SECONDS: Final = 0.75


@dataclass(slots=True)
class Way:
    """The outcomes of one kind of calls.

    failing_since: when the first failed call since the last success began, or the time of that
      success if it is later, on Trio's clock; None if the last call succeeded.  succeeded_at: when
      a call last succeeded.  why: the last failure.
    """

    failing_since: float | None = None
    succeeded_at: float = -inf
    why: str = ""

    def failed(self, began: float, why: str) -> None:
        """Note a call that failed."""
        if self.failing_since is None:
            self.failing_since = max(began, self.succeeded_at)
        self.why = why

    def succeeded(self, now: float) -> None:
        """Note a call that succeeded."""
        self.failing_since = None
        self.succeeded_at = now

    def is_broken(self, now: float) -> bool:
        """Return whether calls have failed for BROKEN_SECONDS or longer."""
        return self.failing_since is not None and now - self.failing_since >= BROKEN_SECONDS


@dataclass(slots=True)
class StoreWay:
    """The way of this gateway to the object store.

    read_failed: a read failed, and no trial read was made since.  is_cut_off: other gateways reach
    the store, this one does not, and clients should use the others; set by store_watch.py alone.
    holds_commits: the WAL writer commits nothing now; set by store_watch.py alone.
    """

    puts: Way = field(default_factory=Way)
    gets: Way = field(default_factory=Way)
    read_failed: bool = False
    is_cut_off: bool = False
    holds_commits: bool = False

    def is_broken(self, now: float) -> bool:
        """Return whether the PUTs or the reads are broken."""
        return self.puts.is_broken(now) or self.gets.is_broken(now)

    @property
    def why(self) -> str:
        """Return the last failure."""
        return self.puts.why if self.puts.failing_since is not None else self.gets.why
