"""The object store for a log of objects: its calls, with the log's own errors.

Only reads that fail their check are repeated, since bytes can be damaged in transit.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Final, NamedTuple, TypeVar

import trio

from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

LIST_LIMIT: Final = 500

_T = TypeVar("_T")


class Listed(NamedTuple):
    name: str
    size_bytes: int


class LogObjects:
    """The objects below `prefix`, which is '' or ends with '/'; names are without it."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    async def create(self, name: str, body: bytes) -> bool:
        """Create an object; False if the name is taken.

        Raises:
            LogUnavailable: the outcome is unknown.
        """
        with _translated_errors():
            try:
                await self._store.put(self._prefix + name, body)
            except ObjectExists:
                return False
        return True

    async def get(self, name: str) -> bytes | None:
        """Read an object; None if it does not exist.

        Raises:
            LogUnavailable: the store does not answer now.
        """
        with _translated_errors():
            try:
                return await self._store.get(self._prefix + name)
            except NoSuchObject:
                return None

    async def get_checked(self, name: str, check: Callable[[bytes], _T]) -> _T | None:
        """Return the result of `check` on an object; if the check fails, read the object again.

        Raises:
            LogUnavailable: the store does not answer now.
            LogCorrupt: the object fails the check twice.
        """
        body = await self.get(name)
        if body is None:
            return None
        try:
            return check(body)
        except LogCorrupt:
            again = await self.get(name)
            return None if again is None else check(again)

    async def page(self, folder: str, *, after: str = "", limit: int = LIST_LIMIT) -> list[Listed]:
        """Return the first objects of a folder after a name, in order.

        Raises:
            LogUnavailable: the store does not answer now.
        """
        start_after = self._prefix + after if after else ""
        with _translated_errors():
            infos = await self._store.list(
                self._prefix + folder, start_after=start_after, limit=limit
            )
        return [Listed(each.key.removeprefix(self._prefix), each.size_bytes) for each in infos]

    async def names(self, folder: str) -> list[str]:
        names: list[str] = []
        while page := await self.page(folder, after=names[-1] if names else ""):
            names += [each.name for each in page]
        return names

    async def delete_while(self, folder: str, is_old: Callable[[str], bool]) -> None:
        """Delete the first objects of a folder, batch by batch, up to one that is not old.

        Raises:
            LogUnavailable: some may still exist.
        """
        after = ""
        while page := await self.page(folder, after=after):
            old = [each.name for each in takewhile(lambda each: is_old(each.name), page)]
            if old:
                await self.delete(old)
            if len(old) < len(page):
                return
            after = old[-1]

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects; missing ones are fine.

        Raises:
            LogUnavailable: some may still exist.
        """
        with _translated_errors():
            await self._store.delete_many([self._prefix + each for each in names])

    async def aclose(self) -> None:
        await self._store.aclose()


@contextmanager
def _translated_errors() -> Generator[None]:
    """Translate errors; while the log is in use, even errors that an operator must fix are outages.

    Credentials, for instance, can expire.
    """
    try:
        yield
    except (StoreUnavailable, StoreMisconfigured) as error:
        raise LogUnavailable(told(error)) from error


def told(error: Exception) -> str:
    """Return the store's message on one line: servers answer with pages of markup."""
    return f"the log of objects: {' '.join(str(error).split())}"


async def each_at_once(
    work: Callable[[int], Awaitable[_T]], numbers: Sequence[int], *, at_once: int
) -> "dict[int, _T | LogUnavailable | LogCorrupt]":
    """Do the work for all numbers, a few at a time; results may be errors of the log."""
    results: dict[int, _T | LogUnavailable | LogCorrupt] = {}
    left = iter(numbers)

    async def take_turns() -> None:
        for number in left:
            try:
                results[number] = await work(number)
            except (LogUnavailable, LogCorrupt) as error:
                results[number] = error

    async with trio.open_nursery() as nursery:
        for _ in range(min(at_once, len(numbers))):
            nursery.start_soon(take_turns)
    return results


def raise_first(results: Mapping[int, object]) -> None:
    """Raise the first of the errors among results of each_at_once."""
    for _, result in sorted(results.items()):
        if isinstance(result, LogUnavailable | LogCorrupt):
            raise result
