"""The keys of identity providers; one task for each provider keeps them current."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import structlog
import trio

from tidegate_runtime.said_again import SaidAgain

from .key_place import KeyPlace, KeysUnavailable, read_keys
from .key_refresh import MAX_MISSING, KeyRefresh, RefreshTimes
from .key_set import BadKeySet, Key, KeySet, read_key_set

_log = structlog.get_logger("tidegate.security")

ReadKeys = Callable[[KeyPlace], Awaitable[bytes]]
"""Raises KeysUnavailable."""

READ_SECONDS: Final = 5.0
"""Less than what a client has to log in."""


class KeySource:
    """The keys of one provider: none before the first successful read.

    After a failed read the earlier keys stay.

    failed_reads: the number of failed reads, for metrics.
    """

    def __init__(self, place: KeyPlace, times: RefreshTimes, read: ReadKeys) -> None:
        self.place = place
        self.failed_reads = 0
        self._looks = 0
        self._keys = KeySet()
        self._read = read
        self._refresh = KeyRefresh(times)
        self._missed = trio.Event()
        self._looked = trio.Event()
        # The ids of keys that the next read, and the read in progress, may bring.
        self._awaited: set[str] = set()
        self._sought: set[str] = set()
        self._said = SaidAgain()

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> Key | None:
        """See key_set.Keys."""
        return self._keys.find(key_id, algorithm)

    def misses(self, key_id: str | None) -> bool:
        """Look for a key that a token names, unless this was done a moment ago.

        Return whether the key may come.  If so, wait_for() ends once the key has been looked for.

        key_id: None for a token that names no key; only the first read can bring its key.
        """
        if not self._looks:
            return True
        if key_id is None or key_id in self._keys:
            return False
        is_room = len(self._awaited) < MAX_MISSING
        if is_room and self._refresh.misses(key_id, trio.current_time()):
            self._awaited.add(key_id)
            self._missed.set()
        return self._is_coming(key_id)

    async def wait_for(self, key_id: str | None) -> None:
        """Wait until a key has been looked for, whether it was found or not."""
        while not self._looks or self._is_coming(key_id):
            await self._looked.wait()

    def _is_coming(self, key_id: str | None) -> bool:
        return key_id in self._awaited or key_id in self._sought

    async def run(self) -> None:
        """Read the keys when it is time; forever."""
        while True:
            await self._wait_until_due()
            self._awaited, self._sought = set(), self._awaited
            try:
                await self._look()
            finally:
                self._looks += 1
                self._sought = set()
                self._looked.set()
                self._looked = trio.Event()

    async def _wait_until_due(self) -> None:
        """Wait until the next read is due; a missing key may make it due earlier."""
        while trio.current_time() < self._refresh.due_at:
            self._missed = trio.Event()
            with trio.move_on_at(self._refresh.due_at):
                await self._missed.wait()

    async def _look(self) -> None:
        try:
            with trio.fail_after(READ_SECONDS):
                found = read_key_set(await self._read(self.place))
        except trio.TooSlowError:
            return self._fail(f"there was no answer within {READ_SECONDS:g} s")
        except (KeysUnavailable, BadKeySet) as error:
            return self._fail(str(error))
        now = trio.current_time()
        self._refresh.succeeded(now)
        if not self._keys:
            _log.info("keys of an identity provider are read", url=self.place.url, keys=len(found))
        self._keys = found
        return None

    def _fail(self, reason: str) -> None:
        now = trio.current_time()
        self.failed_reads += 1
        self._refresh.failed(now)
        if self._said.is_due(reason, now):
            _log.error(
                "keys of an identity provider cannot be read; tokens are checked with those of"
                " before",
                url=self.place.url,
                reason=reason,
                keys=len(self._keys),
            )


class KeySources:
    """One source for each provider, however many listeners name the provider."""

    def __init__(self, read: ReadKeys = read_keys) -> None:
        self._read = read
        self._sources: dict[tuple[KeyPlace, RefreshTimes], KeySource] = {}

    def __iter__(self) -> Iterator[KeySource]:
        return iter(self._sources.values())

    def __len__(self) -> int:
        return len(self._sources)

    def of(self, place: KeyPlace, times: RefreshTimes) -> KeySource:
        """Return the source for a place."""
        source = self._sources.get((place, times))
        if source is None:
            source = self._sources[place, times] = KeySource(place, times, self._read)
        return source

    async def run(self) -> None:
        """Keep all sources current; forever."""
        async with trio.open_nursery() as nursery:
            for each in self:
                nursery.start_soon(each.run)
