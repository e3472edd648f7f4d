"""The marker of a log of objects: its layout, and the test of the store's create-if-absent.

The log's safety rests on create-if-absent. The store must refuse a second creation of the marker.
So each start proves create-if-absent with one request, and leaves no object.
"""

from contextlib import suppress
from typing import Final

import msgspec

from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.objects.door import told
from tidegate_coordination.logs.objects.names import FORMAT, FORMAT_NAME
from tidegate_storage.stores.object_store import (
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)


class _Marker(msgspec.Struct, frozen=True):
    format: int
    about: str = "A metadata log of Tidegate. A change or removal of an object here loses data."


_MARKER: Final = msgspec.json.encode(_Marker(FORMAT))


async def check_marker(store: ObjectStore, prefix: str) -> None:
    """Mark the prefix as a log if it has no marker yet; check that the store can hold a log.

    Raises:
        LogMisconfigured: the store cannot, or the marker is not of this release.
        LogUnavailable: the store does not answer now.
    """
    try:
        await _check(store, prefix + FORMAT_NAME)
    except StoreMisconfigured as error:
        raise LogMisconfigured(told(error)) from error
    except StoreUnavailable as error:
        raise LogUnavailable(told(error)) from error


async def _check(store: ObjectStore, key: str) -> None:
    try:
        await _check_stored(store, key)
    except NoSuchObject:
        with suppress(ObjectExists):
            await store.put(key, _MARKER)
    try:
        await store.put(key, _MARKER)
    except ObjectExists:
        await _check_stored(store, key)
        return
    raise LogMisconfigured(
        "the object store ignores create-if-absent: two gateways would overwrite each other's"
        " entries. Use a store that keeps If-None-Match on PUT (`tidegate doctor` tells), or"
        " another metadata log"
    )


async def _check_stored(store: ObjectStore, key: str) -> None:
    try:
        _check_format(await store.get(key))
    except LogMisconfigured:
        # An operator has to act on this error, so rule out damage in transit.
        _check_format(await store.get(key))


def _check_format(body: bytes) -> None:
    try:
        marker = msgspec.json.decode(body, type=_Marker)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise LogMisconfigured(
            f"{FORMAT_NAME} of the log of objects was not written by Tidegate ({error}):"
            " use an empty prefix"
        ) from error
    if marker.format != FORMAT:
        raise LogMisconfigured(
            f"the log of objects has format {marker.format}; this release reads {FORMAT}:"
            " start a newer one"
        )
