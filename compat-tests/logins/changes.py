"""Changes under the clients: server certificates, keys of tokens, and credentials of SCRAM."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Final

from authentications.provider import Provider
from harness.security import SCRAM_USERS, ScramUser, set_scram_users
from tls.certificates import Files

from logins.brokers import Brokers
from logins.plan import PASSWORD, users

PATIENCE_SECONDS: Final = 30.0
KINDS: Final = 3
"""How many kinds of changes there are."""


def set_passwords(bootstrap: str, mechanisms: Iterable[str], iterations: int) -> None:
    """Give each user of SCRAM its password, with a new salt."""
    for mechanism in mechanisms:
        if mechanism in SCRAM_USERS:
            found = [ScramUser(name, PASSWORD, iterations) for name in users([mechanism])]
            set_scram_users(bootstrap, mechanism, found)


class Changes:
    """Makes one change after another, of each kind in turn, from a thread.

    done: how often each kind was made.

    Args:
      every_seconds: the time between two changes.
    """

    def __init__(
        self,
        brokers: Brokers,
        files: Files,
        provider: Provider,
        mechanisms: Iterable[str],
        every_seconds: float,
    ) -> None:
        self.done: Counter[str] = Counter()
        self._brokers, self._files, self._provider = brokers, files, provider
        self._mechanisms = tuple(mechanisms)
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Changes:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)
        if self._error is not None and error is None:
            raise RuntimeError("a change failed") from self._error

    def _run(self) -> None:
        kinds: dict[str, Callable[[], None]] = {
            "keys": self._provider.rotate,
            "passwords": self._passwords,
        }
        if reload := self._brokers.reload:
            kinds["certificates"] = partial(self._certificates, reload)
        try:
            while True:
                for name, change in kinds.items():
                    if self._stop.wait(self._every_seconds):
                        return
                    change()
                    self.done[name] += 1
        except BaseException as error:
            self._error = error

    def _certificates(self, reload: Callable[[], None]) -> None:
        self._files.new_server()
        reload()

    def _passwords(self) -> None:
        iterations = 4096 + int(time.time()) % 4096
        set_passwords(self._brokers.plain, self._mechanisms, iterations)
