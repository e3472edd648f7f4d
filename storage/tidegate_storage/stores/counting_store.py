"""An object store that reports each request to a book, as a cloud bills it.

A call is one request.  Only delete_many() may be several: S3 accepts 1,000 keys in one.  Requests
that a client library repeats by itself after an error of the store are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from .object_store import Buffer, ObjectInfo, ObjectStore

KEYS_A_DELETE: Final = 1000


class Request(Enum):
    """The kinds of requests, as clouds price them."""

    PUT = "put"
    GET = "get"
    LIST = "list"
    DELETE = "delete"


class RequestBook(Protocol):
    """Gets the requests of a store.  Each method is called in the task of the caller."""

    def asked(self, request: Request, key: str, count: int = 1) -> None:
        """Book requests that are about to be sent; key: an object's, or a prefix."""
        ...

    def stored(self, key: str, size_bytes: int) -> None:
        """Book the bytes of an object that is stored now."""
        ...

    def got(self, key: str, size_bytes: int) -> None:
        """Book bytes that an answer has."""
        ...


class RequestSums:
    """A book of sums: requests by kind, and bytes."""

    def __init__(self) -> None:
        self.requests: Counter[Request] = Counter()
        self.stored_bytes = 0
        self.got_bytes = 0

    def asked(self, request: Request, key: str, count: int = 1) -> None:
        self.requests[request] += count

    def stored(self, key: str, size_bytes: int) -> None:
        self.stored_bytes += size_bytes

    def got(self, key: str, size_bytes: int) -> None:
        self.got_bytes += size_bytes


class CountingStore:
    """A store that books each request that it passes on."""

    def __init__(self, store: ObjectStore, book: RequestBook) -> None:
        self._store = store
        self._book = book

    @property
    def requests_cost_money(self) -> bool:
        return self._store.requests_cost_money

    async def put(self, key: str, body: Buffer) -> None:
        self._book.asked(Request.PUT, key)
        await self._store.put(key, body)
        self._book.stored(key, len(body))

    async def get(self, key: str) -> bytes:
        self._book.asked(Request.GET, key)
        body = await self._store.get(key)
        self._book.got(key, len(body))
        return body

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        self._book.asked(Request.GET, key)
        body = await self._store.get_range(key, start, length)
        self._book.got(key, len(body))
        return body

    async def delete_many(self, keys: Sequence[str]) -> None:
        if keys:
            self._book.asked(Request.DELETE, keys[0], -(-len(keys) // KEYS_A_DELETE))
        await self._store.delete_many(keys)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        self._book.asked(Request.LIST, prefix)
        return await self._store.list(prefix, start_after=start_after, limit=limit)

    async def aclose(self) -> None:
        await self._store.aclose()
