"""Objects in S3, Google Cloud Storage, Azure, or stores with the same APIs, through obstore.

obstore's blocking calls run in threads (its own async side is asyncio's).  The calls release the
GIL.

A put is one conditional request that obstore never repeats by itself: a hidden repeat would find
its own first success and report that the key is taken.  S3 answers 412 if the key is taken, and 409
if it does not know yet because another request for the key is under way.  obstore reports both as
"already exists", so its text decides, and a 409 is repeated within the deadline.  (Azure says 409
BlobAlreadyExists for a taken key.)
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import obstore
import trio
from obstore.exceptions import AlreadyExistsError, BaseError

from .object_store import (
    DEFAULT_DEADLINE_SECONDS,
    Buffer,
    NoSuchObject,
    ObjectExists,
    ObjectInfo,
    StoreUnavailable,
    check_key,
    check_prefix,
)
from .store_errors import misconfigures, text_of, translated

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Client

T = TypeVar("T")

CONFLICT_PAUSE_SECONDS = 0.05
# The module of the error that pyo3 raises if Rust code panics. The error is no Exception, and is
# not exported.
_PANIC = "pyo3_runtime"


class RemoteObjectStore:
    """One bucket, below a prefix.

    writer must not retry by itself; reader may.  Writer and reader should end each call after
    deadline_seconds, so that the thread of an abandoned call ends, too.
    """

    requests_cost_money = True

    def __init__(
        self,
        writer: Client,
        reader: Client,
        *,
        deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        max_threads: int = 32,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._deadline_seconds = deadline_seconds
        # Separate limits, so that uploads that hang do not delay reads.
        self._write_limiter = trio.CapacityLimiter(max_threads)
        self._read_limiter = trio.CapacityLimiter(max_threads)

    async def put(self, key: str, body: Buffer) -> None:
        check_key(key)
        async with self._door(f"put {key}"):
            while True:
                is_settled = await self._write(lambda: _create(self._writer, key, body))
                if is_settled:
                    break
                await trio.sleep(CONFLICT_PAUSE_SECONDS)

    async def get(self, key: str) -> bytes:
        check_key(key)
        async with self._door(f"get {key}"):
            return await self._read(
                lambda: obstore.get(self._reader, key).bytes().to_bytes(), key=key
            )

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        check_key(key)
        async with self._door(f"get {key}"):
            part = await self._read(
                # The bytes are not copied: the caller knows whether it needs a copy of all or a
                # part.
                lambda: memoryview(
                    obstore.get_range(self._reader, key, start=start, length=length)
                ),
                key=key,
            )
        if len(part) != length:
            raise StoreUnavailable(f"{key} ends before byte {start + length}")
        return part

    async def exists(self, key: str) -> bool:
        """See AnswersHead."""
        check_key(key)
        async with self._door(f"head {key}"):
            try:
                await self._read(lambda: obstore.head(self._reader, key), key=key)
            except NoSuchObject:
                return False
        return True

    async def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)
        async with self._door("delete"):
            await self._write(lambda: _delete(self._reader, keys))

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        check_prefix(prefix)
        async with self._door(f"list {prefix}"):
            return await self._read(
                lambda: _list_page(self._reader, prefix, start_after, limit), key=prefix
            )

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    async def _write(self, call: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(
            call, abandon_on_cancel=True, limiter=self._write_limiter
        )

    async def _read(self, call: Callable[[], T], *, key: str) -> T:
        try:
            return await trio.to_thread.run_sync(
                call, abandon_on_cancel=True, limiter=self._read_limiter
            )
        except FileNotFoundError as error:
            if misconfigures(text_of(error)):
                raise
            raise NoSuchObject(key) from None

    @asynccontextmanager
    async def _door(self, what: str) -> AsyncGenerator[None, None]:
        """Give the call its deadline; translate obstore's errors."""
        try:
            with trio.fail_after(self._deadline_seconds):
                yield
        except trio.TooSlowError:
            raise StoreUnavailable(f"{what}: no answer in {self._deadline_seconds:g} s") from None
        except (BaseError, FileNotFoundError) as error:
            raise translated(what, error, os.environ) from error
        except BaseException as error:
            if type(error).__module__ != _PANIC:
                raise
            raise StoreUnavailable(f"{what}: the client of the store failed: {error}") from None


def _create(client: Client, key: str, body: Buffer) -> bool:
    """Create an object; return False if the store does not know yet.  Blocks."""
    try:
        obstore.put(client, key, body, mode="create", use_multipart=False)
    except AlreadyExistsError as error:
        text = text_of(error)
        if "409 Conflict" in text and "BlobAlreadyExists" not in text:
            return False
        raise ObjectExists(key) from None
    return True


def _delete(client: Client, keys: Sequence[str]) -> None:
    """Delete objects; if a missing key is an error, delete one by one.  Blocks."""
    try:
        obstore.delete(client, list(keys))
    except FileNotFoundError:
        for key in keys:
            with suppress(FileNotFoundError):
                obstore.delete(client, key)


def _list_page(client: Client, prefix: str, start_after: str, limit: int) -> list[ObjectInfo]:
    """List one page.  Blocks.

    obstore's type hints name Arrow tables, which need a package that we do not require.
    """
    pages = obstore.list(  # pyright: ignore[reportUnknownMemberType]
        client, prefix, offset=start_after or None, chunk_size=limit
    )
    return [
        ObjectInfo(meta["path"], meta["size"], meta["last_modified"].timestamp())
        for meta in next(iter(pages), ())
    ]
