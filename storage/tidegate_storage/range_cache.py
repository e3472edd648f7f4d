"""A cache of byte ranges, bounded in bytes, that a cold scan cannot empty.

Two lists, each in order of last use.  A value that enters cold is on probation.  A value that is
used again on probation, or enters hot (this gateway's own WAL object, the tail), is protected.  The
cache evicts from probation first, so a scan that reads everything once evicts only its own values
and those it would have evicted anyway.  The protected list holds at most four fifths of the bytes;
above that, its oldest values return to probation, so the list follows a changing hot set.
(Segmented LRU.)  Demoted values, which their users have finished with, leave first, in the order of
their demotion.

Concurrent misses of one key share one load, run by the first caller.  If that caller is cancelled,
another waiting caller runs the load. A load may bring other keys along; a caller that misses one of
these keys meanwhile waits for the load, and then looks the key up again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

import trio

T = TypeVar("T")

_Entries = OrderedDict[Hashable, tuple[T, int]]


class _Flight(Generic[T]):
    """A load under way; lands with a value, an error, or neither (its leader was cancelled)."""

    __slots__ = ("error", "landed", "value")

    def __init__(self) -> None:
        self.landed = trio.Event()
        self.value: tuple[T] | None = None
        self.error: Exception | None = None


class RangeCache(Generic[T]):
    """Values by key.  A value and its size must not change while it is here.

    on_leave: called with each value that leaves, for any reason.  This function must not use the
    cache.
    """

    def __init__(
        self, max_bytes: int, *, on_leave: Callable[[T], None] = lambda value: None
    ) -> None:
        self.max_bytes = max_bytes
        self._on_leave = on_leave
        self._max_protected_bytes = max_bytes * 4 // 5
        self._probation: _Entries[T] = OrderedDict()
        self._protected: _Entries[T] = OrderedDict()
        self._spent: _Entries[T] = OrderedDict()
        self._probation_bytes = 0
        self._protected_bytes = 0
        self._spent_bytes = 0
        self._flights: dict[Hashable, _Flight[T]] = {}

    @property
    def used_bytes(self) -> int:
        return self._probation_bytes + self._protected_bytes + self._spent_bytes

    def get_nowait(self, key: Hashable, *, promote: bool = True) -> T | None:
        """Return the value, or None if it is not here; counts as a use.

        promote: whether this use ends its probation.  A use by a scan should not: a scan uses each
        value that it loads, and values that it loaded ahead even more than once.
        """
        entry = self._protected.get(key)
        if entry is not None:
            self._protected.move_to_end(key)
            return entry[0]
        entry = self._probation.get(key)
        if entry is None:
            return self._use_again(key, promote=promote) if self._spent else None
        if promote:
            del self._probation[key]
            self._probation_bytes -= entry[1]
            self._protect(key, entry)
        else:
            self._probation.move_to_end(key)
        return entry[0]

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a value is here; does not count as a use."""
        return key in self._protected or key in self._probation or key in self._spent

    def is_coming(self, key: Hashable) -> bool:
        """Return whether a load under way brings the value."""
        return key in self._flights

    def put(self, key: Hashable, value: T, size_bytes: int, hot: bool) -> None:
        """Keep a value in place of any older one; a value larger than the cache is not kept."""
        self.evict(key)
        if size_bytes > self.max_bytes:
            return
        if hot:
            self._protect(key, (value, size_bytes))
        else:
            self._probation[key] = (value, size_bytes)
            self._probation_bytes += size_bytes
        self._make_room()

    def resize(self, max_bytes: int) -> None:
        """Change the bound; values above it are evicted."""
        self.max_bytes = max_bytes
        self._max_protected_bytes = max_bytes * 4 // 5
        self._make_room()

    async def get(
        self,
        key: Hashable,
        load: Callable[[], Awaitable[tuple[T, int]]],
        *,
        hot: bool = False,
        promote: bool = True,
        along: Sequence[Hashable] = (),
    ) -> T:
        """Return the value; if it is not here, load it first.

        load: returns the value with its size in bytes.
        promote: see get_nowait(); for a value that is here, or that another caller's load brings.
        along: keys whose values load itself puts here.

        Raises the load's exception to all callers that waited for it; nothing is kept then.
        """
        while True:
            value = self.get_nowait(key, promote=promote)
            if value is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
                return value
            flight = self._flights.get(key)
            if flight is None:
                return await self._lead(key, load, hot, along)
            await flight.landed.wait()
            if flight.error is not None:
                try:
                    raise flight.error
                finally:
                    del flight  # otherwise the traceback keeps this frame, which holds the error
            if flight.value is not None:
                return flight.value[0]

    def demote(self, key: Hashable) -> None:
        """Have a value on probation leave before all that are not demoted; a use undoes this."""
        entry = self._probation.pop(key, None)
        if entry is not None:
            self._probation_bytes -= entry[1]
            self._spent[key] = entry
            self._spent_bytes += entry[1]

    def evict(self, key: Hashable) -> None:
        """Remove a value; a load under way still returns its value, which is not kept."""
        self._flights.pop(key, None)
        entry = self._probation.pop(key, None)
        if entry is not None:
            self._probation_bytes -= entry[1]
            self._on_leave(entry[0])
        entry = self._protected.pop(key, None)
        if entry is not None:
            self._protected_bytes -= entry[1]
            self._on_leave(entry[0])
        entry = self._spent.pop(key, None)
        if entry is not None:
            self._spent_bytes -= entry[1]
            self._on_leave(entry[0])

    def _use_again(self, key: Hashable, *, promote: bool) -> T | None:
        """Return a demoted value and undo the demotion."""
        entry = self._spent.pop(key, None)
        if entry is None:
            return None
        self._spent_bytes -= entry[1]
        if promote:
            self._protect(key, entry)
        else:
            self._probation[key] = entry
            self._probation_bytes += entry[1]
        return entry[0]

    async def _lead(
        self,
        key: Hashable,
        load: Callable[[], Awaitable[tuple[T, int]]],
        hot: bool,
        along: Sequence[Hashable],
    ) -> T:
        flight = self._flights[key] = _Flight[T]()
        company = _Flight[T]()  # no error here: a failed load concerns only its own key
        for each in along:
            if each not in self:
                self._flights.setdefault(each, company)
        try:
            value, size_bytes = await load()
            flight.value = (value,)
        except Exception as error:
            flight.error = error
            raise
        finally:
            is_wanted = self._flights.get(key) is flight
            if is_wanted:
                del self._flights[key]
            for each in along:
                if self._flights.get(each) is company:
                    del self._flights[each]
            flight.landed.set()
            company.landed.set()
            del flight  # see get(): else the traceback keeps the failed load's objects for long
        if is_wanted:
            self.put(key, value, size_bytes, hot)
        return value

    def _protect(self, key: Hashable, entry: tuple[T, int]) -> None:
        self._protected[key] = entry
        self._protected_bytes += entry[1]
        while self._protected_bytes > self._max_protected_bytes and len(self._protected) > 1:
            oldest, demoted = self._protected.popitem(last=False)
            self._protected_bytes -= demoted[1]
            self._probation[oldest] = demoted
            self._probation_bytes += demoted[1]

    def _make_room(self) -> None:
        while self.used_bytes > self.max_bytes:
            if self._spent:
                _, (value, size_bytes) = self._spent.popitem(last=False)
                self._spent_bytes -= size_bytes
            elif self._probation:
                _, (value, size_bytes) = self._probation.popitem(last=False)
                self._probation_bytes -= size_bytes
            else:
                _, (value, size_bytes) = self._protected.popitem(last=False)
                self._protected_bytes -= size_bytes
            self._on_leave(value)
