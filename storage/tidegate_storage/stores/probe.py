"""Checks of an object store: does it keep the promises that Tidegate needs?

`tidegate doctor` checks all of them.  A gateway that starts checks only create-if-absent, without
which gateways would overwrite records.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import trio

from .object_store import (
    Buffer,
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)

BODY = bytes(range(256)) * 4
CREATORS = 8
_IGNORES_CREATE_IF_ABSENT = (
    "it ignores create-if-absent: Tidegate would lose data here; use a store that keeps"
    " If-None-Match on PUT, or one gateway with file:"
)


class Finding(NamedTuple):
    """One promise: what it is, whether it is kept, and if not, what to do.

    is_last: the store does not answer, or refuses all objects, so other promises cannot be tried.
    """

    ok: bool
    what: str
    advice: str
    is_last: bool = False


async def see_create_if_absent(store: ObjectStore, key: str, body: Buffer) -> None:
    """Check that a store refuses to create a key again, by a put of the bytes that the key holds.

    If the store accepts them, it holds the same bytes as before, so the check changes nothing.

    Raises:
      StoreMisconfigured: it accepted them.  Gateways would overwrite each other's objects there.
      StoreUnavailable: the outcome is unknown; repeat the same call.
    """
    try:
        await store.put(key, body)
    except ObjectExists:
        return
    raise StoreMisconfigured(_IGNORES_CREATE_IF_ABSENT)


async def probe_store(store: ObjectStore, *, nonce: str | None = None) -> list[Finding]:
    """Try each promise on keys below doctor/; leaves nothing behind if deleting works.

    Ends early with a finding that is_last: all later findings would only follow from it.

    Args:
      nonce: distinguishes probes that run at the same time; random if not given.
    """
    folder = f"doctor/{nonce or secrets.token_hex(8)}/"
    found: list[Finding] = []
    for what, check in _CHECKS:
        found.append(await _finding(what, partial(check, store, folder)))
        if found[-1].is_last:
            break
    if len(found) < len(_CHECKS) and found[0].ok:
        # The checks have already reported such a failure.
        with suppress(StoreUnavailable, StoreMisconfigured):
            await store.delete_many(_keys(folder))
    return found


async def _finding(what: str, check: Callable[[], Awaitable[str]]) -> Finding:
    try:
        advice = await check()
    except StoreUnavailable as error:
        return Finding(False, what, str(error), is_last=True)
    except StoreMisconfigured as error:
        # Each permission is granted separately, so the other checks continue; but without objects
        # there is nothing to read.
        return Finding(False, what, str(error), is_last=what == _CHECKS[0][0])
    except NoSuchObject as error:
        advice = f"{error} was stored and cannot be found: this store is not consistent"
    except ObjectExists as error:
        advice = f"{error} was never stored and exists: this store is not consistent"
    return Finding(not advice, what, advice)


def _keys(folder: str) -> list[str]:
    return [folder + name for name in ("a", "b/c", "race")]


async def _create(store: ObjectStore, folder: str) -> str:
    await store.put(folder + "a", BODY)
    await store.put(folder + "b/c", b"")
    return ""


async def _create_again(store: ObjectStore, folder: str) -> str:
    try:
        await store.put(folder + "a", b"other")
    except ObjectExists:
        return ""
    return _IGNORES_CREATE_IF_ABSENT


async def _create_at_once(store: ObjectStore, folder: str) -> str:
    winners: list[bytes] = []
    failures: list[StoreUnavailable | StoreMisconfigured] = []

    async def create(body: bytes) -> None:
        try:
            await store.put(folder + "race", body)
        except ObjectExists:
            return
        except (StoreUnavailable, StoreMisconfigured) as error:
            failures.append(error)
            return
        winners.append(body)

    async with trio.open_nursery() as nursery:
        for number in range(CREATORS):
            nursery.start_soon(create, b"%d" % number)
    if not winners:
        return _nobody_won(failures)
    if len(winners) == 1 and await store.get(folder + "race") == winners[0]:
        return ""
    return _IGNORES_CREATE_IF_ABSENT


def _nobody_won(failures: list[StoreUnavailable | StoreMisconfigured]) -> str:
    """Return the advice if no put succeeded; raise if some outcome is unknown: it may have won."""
    if failures:
        raise failures[0]
    return "it says that an object exists which was never stored: this store is not consistent"


async def _read(store: ObjectStore, folder: str) -> str:
    is_same = await store.get(folder + "a") == BODY and await store.get(folder + "b/c") == b""
    return "" if is_same else "it returns other bytes than were stored: do not use it"


async def _read_range(store: ObjectStore, folder: str) -> str:
    for start, length in ((0, 1), (100, 300), (len(BODY) - 1, 1)):
        if await store.get_range(folder + "a", start, length) != BODY[start : start + length]:
            return "it returns other bytes than the range asked for: do not use it"
    return ""


async def _list(store: ObjectStore, folder: str) -> str:
    found = [info.key for info in await store.list(folder)]
    wanted = _keys(folder)
    after = [info.key for info in await store.list(folder, start_after=wanted[0], limit=1)]
    if found == wanted and after == wanted[1:2]:
        return ""
    return f"it lists {found} where {wanted} are: what it misses would never be collected"


async def _delete(store: ObjectStore, folder: str) -> str:
    await store.delete_many([*_keys(folder), folder + "missing"])
    left = [info.key for info in await store.list(folder)]
    return f"it still lists {left} after deleting them" if left else ""


_CHECKS: tuple[tuple[str, Callable[[ObjectStore, str], Awaitable[str]]], ...] = (
    ("creates objects", _create),
    ("refuses to create an object twice", _create_again),
    ("lets one of several creators win", _create_at_once),
    ("reads objects", _read),
    ("reads ranges", _read_range),
    ("lists objects in order", _list),
    ("deletes objects", _delete),
)
