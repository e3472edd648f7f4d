"""Wakes the long polls of a broker when a partition that they wait for changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Hashable, Iterable
from contextlib import contextmanager

import trio


class Signals:
    """One event for each wait; a key is a partition."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Hashable, dict[trio.Event, None]] = defaultdict(dict)

    @contextmanager
    def watch(self, keys: Iterable[Hashable]) -> Generator[trio.Event]:
        """Yield an event that is set when one of the keys changes."""
        event, keys = trio.Event(), list(keys)
        for key in keys:
            self._waiting[key][event] = None
        try:
            yield event
        finally:
            for key in keys:
                self._waiting[key].pop(event, None)

    def notify(self, key: Hashable) -> None:
        """Wake the waits that watch a key."""
        for event in self._waiting.pop(key, {}):
            event.set()

    def notify_all(self) -> None:
        """Wake every wait: a leader moved, a broker stopped."""
        for key in list(self._waiting):
            self.notify(key)
