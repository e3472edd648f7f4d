"""The parts that the Python clients share: a steady producer in a thread, lines, and tokens."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Final

from logins.plan import Login, Plan

TICK_SECONDS: Final = 0.03
PATIENCE_SECONDS: Final = 10.0
PADDING: Final = "." * 80
_lock = threading.Lock()


def say(kind: str, login: Login, *words: object) -> None:
    """Print a line."""
    line = " ".join(map(str, (kind, int(time.time() * 1000), login.mechanism, *words)))
    with _lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def short(error: object) -> str:
    """Return an error on one line."""
    return " ".join(f"{type(error).__name__} {error}".split())


def token(plan: Plan, user: str) -> tuple[str, float]:
    """Ask the identity provider; return a token, and when it expires, in seconds of the epoch."""
    asked = urllib.request.Request(plan.tokens, b"grant_type=client_credentials")
    known = base64.b64encode(f"{user}:secret".encode()).decode()
    asked.add_header("Authorization", f"Basic {known}")
    with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as reply:
        answer = json.load(reply)
    return str(answer["access_token"]), time.time() + float(answer["expires_in"])


def value(login: Login, number: int) -> bytes:
    """Return the value of a record."""
    return f"{login.user} {number} {PADDING}".encode()


def number_of(data: bytes | None) -> int:
    """Return the number of a record."""
    assert data is not None
    return int(data.split(b" ", 2)[1])


class Due:
    """Computes the numbers of the records that are due at a steady rate."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._number = 0

    def numbers(self) -> range:
        """Return the numbers that became due since the last call."""
        first = self._number
        self._number = int((time.monotonic() - self._began) * self._rate)
        return range(first, self._number)


class Production(threading.Thread):
    """Sends until it is stopped.

    Args:
      send: takes number and partition.
      pause: called after each tick.
      flush: waits until all have an answer, and returns whether they have.
    """

    def __init__(
        self,
        plan: Plan,
        login: Login,
        stop: threading.Event,
        send: Callable[[int, int], None],
        pause: Callable[[], object],
        flush: Callable[[], bool],
    ) -> None:
        super().__init__(daemon=True)
        self._plan, self._login, self._stopped = plan, login, stop
        self._send, self._pause, self._flush = send, pause, flush

    def run(self) -> None:
        """See Thread."""
        due = Due(self._plan.rate)
        while not self._stopped.wait(TICK_SECONDS):
            for number in due.numbers():
                self._send(number, number % self._plan.partitions)
            self._pause()
        if self._flush():
            say("D", self._login)


def until_told(stop_producing: Callable[[], None]) -> None:
    """Return at the end of standard input.  A line before its end stops the producers."""
    for _ in sys.stdin:
        stop_producing()
