"""Threads that kill or stop gateways and clients, each by its own plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from faults.attendance import now_ms

from exactly_once.kills import Blow

JOIN_SECONDS = 120.0


@dataclass(slots=True)
class Dealt:
    """A fault that was caused.  target: gateway, or the kind of a client.  until_ms: its end."""

    at_ms: int
    target: str
    who: int
    how: str
    until_ms: int = 0


class Hurting:
    """The threads that cause faults.  dealt: all faults so far."""

    def __init__(self) -> None:
        self.dealt: list[Dealt] = []
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._error: BaseException | None = None

    def begin(
        self, target: str, plan: Iterable[Blow], deal: Callable[[Blow, threading.Event], None]
    ) -> None:
        """Cause the faults of a plan.

        deal: causes a fault and mends it.  The event ends its waits.
        """
        thread = threading.Thread(target=self._follow, args=(target, plan, deal), daemon=True)
        self._threads.append(thread)
        thread.start()

    def times(self, target: str) -> list[int]:
        """Return the times of all faults of this target, in ms."""
        return [each.at_ms for each in self.dealt if each.target == target]

    def longest_ms(self, target: str) -> int:
        """Return the length of the longest fault of this target, in ms."""
        lasted = [each.until_ms - each.at_ms for each in self.dealt if each.target == target]
        return max(lasted, default=0)

    def check(self) -> None:
        """Raise if a fault could not be mended."""
        if self._error is not None:
            raise RuntimeError("a process could not be started again") from self._error

    def end(self) -> None:
        """Cause no more faults, and wait until all are mended."""
        self._stop.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    def _follow(
        self, target: str, plan: Iterable[Blow], deal: Callable[[Blow, threading.Event], None]
    ) -> None:
        began = time.monotonic()
        try:
            for blow in plan:
                if self._stop.wait(max(0.0, began + blow.at_seconds - time.monotonic())):
                    return
                dealt = Dealt(now_ms(), target, blow.who, blow.how)
                self.dealt.append(dealt)
                deal(blow, self._stop)
                dealt.until_ms = now_ms()
        except BaseException as error:
            self._error = error
