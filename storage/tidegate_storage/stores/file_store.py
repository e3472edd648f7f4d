"""Objects as files below one folder: for one machine, or a file system that machines share.

A key's parts are folders, so a key that continues another ('a' and 'a/b') cannot be stored;
Tidegate has no such keys.  Empty folders stay.  disk/recipes.py has the steps that make an object
durable.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice

import trio

from .files import recipes as disk_recipes
from .files.steps import Disk, DiskSteps
from .object_store import (
    DEFAULT_DEADLINE_SECONDS,
    Buffer,
    NoSuchObject,
    ObjectExists,
    ObjectInfo,
    StoreMisconfigured,
    StoreUnavailable,
    check_key,
    check_prefix,
)

_PERSON_MUST_ACT = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR}


class FileObjectStore:
    """Each object is a file.  Call sweep_temporary() on the disk before you open this store."""

    requests_cost_money = False

    def __init__(self, disk: Disk, *, deadline_seconds: float = DEFAULT_DEADLINE_SECONDS) -> None:
        self._disk = disk
        self._deadline_seconds = deadline_seconds
        self._folders = disk_recipes.DurableFolders()
        self._temp_names = disk_recipes.TempNames()

    async def put(self, key: str, body: Buffer) -> None:
        _check_key(key)
        recipe = partial(
            disk_recipes.create,
            folders=self._folders,
            temp_names=self._temp_names,
            path=key,
            body=body,
        )
        async with self._door(key):
            try:
                await self._disk.run(recipe)
            except FileExistsError:
                raise ObjectExists(key) from None

    async def get(self, key: str) -> bytes:
        return await self._read(key, 0, None)

    async def get_range(self, key: str, start: int, length: int) -> bytes:
        part = await self._read(key, start, length)
        if len(part) != length:
            raise StoreUnavailable(f"{key} ends before byte {start + length}")
        return part

    async def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            _check_key(key)
        recipe = partial(disk_recipes.remove, folders=self._folders, paths=list(keys))
        async with self._door("delete"):
            await self._disk.run(recipe)

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        check_prefix(prefix)

        def recipe(steps: DiskSteps) -> list[ObjectInfo]:
            return list(islice(disk_recipes.walk(steps, prefix, start_after), limit))

        async with self._door(prefix):
            return await self._disk.run(recipe)

    async def aclose(self) -> None:
        await self._disk.aclose()

    async def _read(self, key: str, start: int, length: int | None) -> bytes:
        _check_key(key)
        async with self._door(key):
            try:
                return await self._disk.run(lambda steps: steps.read(key, start, length))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise NoSuchObject(key) from None

    @asynccontextmanager
    async def _door(self, what: str) -> AsyncGenerator[None, None]:
        """Give the call its deadline; translate the kernel's errors."""
        try:
            with trio.fail_after(self._deadline_seconds):
                yield
        except trio.TooSlowError:
            raise StoreUnavailable(
                f"{what}: the disk took longer than {self._deadline_seconds:g} s"
            ) from None
        except OSError as error:
            if error.errno in _PERSON_MUST_ACT:
                raise StoreMisconfigured(
                    f"{error}: let Tidegate read, write and hard-link files in this folder"
                ) from error
            raise StoreUnavailable(f"{what}: {error}") from error


def _check_key(key: str) -> None:
    check_key(key)
    if key.partition("/")[0] == disk_recipes.TEMP_FOLDER:
        raise ValueError(f"{key!r} lies in the folder for temporary files")
