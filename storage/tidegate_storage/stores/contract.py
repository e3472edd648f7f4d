"""The contract of every ObjectStore: run each check of CONTRACT on your own store.

    for check in CONTRACT:
        await check(store, f"{check.__name__}/")

A check uses keys below the folder it is given, which must be empty, and raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from .object_store import (
    Buffer,
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    StoreUnavailable,
    object_exists,
    put_idempotent,
)

Check: TypeAlias = Callable[[ObjectStore, str], Awaitable[None]]

BODY = bytes(range(256)) * 40
LARGE_BODY = BODY * 300  # 3 MB
# '-' and '.' sort before '/', letters and digits after it.
NAMES = ("a-b", "a.b", "a/b/c", "a/b-c", "a/b.c", "a0", "b/x", "b/y", "ba/x", "c")


async def reads_what_was_put(store: ObjectStore, folder: str) -> None:
    for number, body in enumerate((b"", b"x", BODY, LARGE_BODY)):
        key = f"{folder}{number}"
        await store.put(key, body)
        assert await store.get(key) == body


async def takes_any_buffer(store: ObjectStore, folder: str) -> None:
    """The store must copy the bytes: after a put the gateway patches offsets into the buffer."""
    bodies: tuple[Buffer, ...] = (bytearray(BODY), memoryview(BODY), memoryview(bytearray(BODY)))
    for number, body in enumerate(bodies):
        key = f"{folder}{number}"
        await store.put(key, body)
        if not isinstance(body, bytes) and not memoryview(body).readonly:
            body[0] = 99
        assert await store.get(key) == BODY


async def creates_once(store: ObjectStore, folder: str) -> None:
    key = folder + "once"
    await store.put(key, b"first")
    for body in (b"second", b"first", b""):
        await _raises(ObjectExists, store.put(key, body))
    assert await store.get(key) == b"first"


async def lets_one_creator_win(store: ObjectStore, folder: str) -> None:
    """The losers get ObjectExists or an unknown outcome, but never a success."""
    key = folder + "race"
    winners: list[bytes] = []

    async def create(body: bytes) -> None:
        try:
            await store.put(key, body)
        except (ObjectExists, StoreUnavailable):
            return
        winners.append(body)

    async with trio.open_nursery() as nursery:
        for number in range(16):
            nursery.start_soon(create, b"%d" % number * 10_000)
    assert len(winners) == 1, f"{len(winners)} creators of one key got a success"
    assert await store.get(key) == winners[0]


async def repeats_a_put_safely(store: ObjectStore, folder: str) -> None:
    await put_idempotent(store, folder + "again", BODY)
    await put_idempotent(store, folder + "again", bytearray(BODY))
    await _raises(ObjectExists, put_idempotent(store, folder + "again", BODY + b"x"))
    await _raises(ObjectExists, put_idempotent(store, folder + "again", b"x" + BODY[1:]))


async def reads_ranges(store: ObjectStore, folder: str) -> None:
    key = folder + "ranges"
    await store.put(key, BODY)
    for start, length in ((0, 1), (0, len(BODY)), (255, 2), (len(BODY) - 1, 1)):
        assert await store.get_range(key, start, length) == BODY[start : start + length]


async def never_reads_short(store: ObjectStore, folder: str) -> None:
    key = folder + "short"
    await store.put(key, BODY)
    for start, length in ((0, len(BODY) + 1), (len(BODY) - 1, 2), (len(BODY) + 5, 1)):
        await _raises(StoreUnavailable, store.get_range(key, start, length))


async def says_what_is_missing(store: ObjectStore, folder: str) -> None:
    await store.put(folder + "a/b", BODY)
    for key in ("none", "none/at/all", "a"):
        await _raises(NoSuchObject, store.get(folder + key))
        await _raises(NoSuchObject, store.get_range(folder + key, 0, 1))
        assert not await object_exists(store, folder + key)
    assert await object_exists(store, folder + "a/b")


async def deletes(store: ObjectStore, folder: str) -> None:
    keys = [f"{folder}{name}" for name in ("a", "b", "c/d", "c/e")]
    for key in keys:
        await store.put(key, BODY)
    await store.delete_many([])
    await store.delete_many([keys[0], f"{folder}missing", f"{folder}not/there", keys[2]])
    await store.delete_many([keys[0]])
    assert await _keys(store, folder) == [keys[1], keys[3]]
    await _raises(NoSuchObject, store.get(keys[0]))
    assert await store.get(keys[3]) == BODY


async def lists_in_key_order(store: ObjectStore, folder: str) -> None:
    for name in reversed(NAMES):
        await store.put(folder + name, b"x" * len(name))
    infos = await store.list(folder)
    by_key = sorted(folder + name for name in NAMES)
    by_part = sorted(by_key, key=lambda key: key.split("/"))
    assert [info.key for info in infos] in (by_key, by_part)
    assert [info.size_bytes for info in infos] == [len(i.key) - len(folder) for i in infos]


async def lists_in_pages(store: ObjectStore, folder: str) -> None:
    for name in NAMES:
        await store.put(folder + name, b"")
    keys = await _keys(store, folder)
    assert len(keys) == len(NAMES)
    for number, key in enumerate(keys):
        assert await _keys(store, folder, start_after=key) == keys[number + 1 :]
        assert await _keys(store, folder, start_after=key, limit=2) == keys[number + 1 :][:2]
    assert await _keys(store, folder, limit=3) == keys[:3]
    assert await _keys(store, folder + "b/", start_after=folder + "a") == keys[-4:-2]
    assert await _keys(store, folder, start_after=folder + "bb") == keys[-1:]


async def lists_whole_parts_only(store: ObjectStore, folder: str) -> None:
    """A prefix consists of whole parts: 'b/' does not match 'ba/x'."""
    for name in NAMES:
        await store.put(folder + name, b"")
    assert await _keys(store, folder + "b/") == [folder + "b/x", folder + "b/y"]
    assert await _keys(store, folder + "a/b/") == [folder + "a/b/c"]
    assert await _keys(store, folder + "zzz/") == []
    await _raises(ValueError, store.list(folder + "b"))


async def says_when_an_object_was_made(store: ObjectStore, folder: str) -> None:
    for name in ("first", "second"):
        await store.put(folder + name, b"")
    first, second = await store.list(folder)
    assert first.modified_at <= second.modified_at + 1


async def holds_any_plain_name(store: ObjectStore, folder: str) -> None:
    names = ["%2F", "a b", "caf\u00e9", "x=1&y+z", "~'()!*", "#?;:@,$", "n" * 255]
    for name in names:
        await store.put(folder + name, name.encode())
    for name in names:
        assert await store.get(folder + name) == name.encode()
    assert await _keys(store, folder) == sorted(folder + name for name in names)
    await store.delete_many([folder + name for name in names])
    assert await _keys(store, folder) == []


async def refuses_bad_keys(store: ObjectStore, folder: str) -> None:
    for name in ("", "/a", "a/", "a//b", ".", "../a", "a/./b", "a\0b", "a\nb", "a\\b", "n" * 256):
        await _raises(ValueError, store.put(folder + name, b""))
        await _raises(ValueError, store.get(folder + name))
        await _raises(ValueError, store.get_range(folder + name, 0, 1))
        await _raises(ValueError, store.delete_many([folder + name]))
    assert await _keys(store, folder) == []


CONTRACT: tuple[Check, ...] = (
    reads_what_was_put,
    takes_any_buffer,
    creates_once,
    lets_one_creator_win,
    repeats_a_put_safely,
    reads_ranges,
    never_reads_short,
    says_what_is_missing,
    deletes,
    lists_in_key_order,
    lists_in_pages,
    lists_whole_parts_only,
    says_when_an_object_was_made,
    holds_any_plain_name,
    refuses_bad_keys,
)


async def _keys(
    store: ObjectStore, prefix: str, *, start_after: str = "", limit: int = 1000
) -> list[str]:
    infos = await store.list(prefix, start_after=start_after, limit=limit)
    return [info.key for info in infos]


async def _raises(kind: type[Exception], call: Awaitable[object]) -> None:
    try:
        await call
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
