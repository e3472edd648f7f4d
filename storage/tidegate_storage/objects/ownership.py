"""Which cluster owns a prefix, and in which timeline: marker objects, created if absent.

`tidegate-owner.json` names the cluster.  A restored or repaired metadata log opens a new timeline
with a numbered marker; the highest number owns the prefix.  Creating a number is a compare-and-set,
so two restores never get the same.  A gateway whose log is of an older timeline refuses to start; a
running one checks the timeline before each deletion.
"""

from __future__ import annotations

import msgspec

from ..stores.object_store import (
    NoSuchObject,
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
)
from ..stores.probe import see_create_if_absent
from ..stores.store_errors import web_page
from .keys import OWNER_KEY, TIMELINE_FOLDER, parse_timeline_key, timeline_key


class Owner(msgspec.Struct, frozen=True):
    """The owner marker's fields; timeline: the one in which the cluster claimed the prefix."""

    cluster_id: str
    timeline: int
    created_by: str


class TimelineOver(StoreMisconfigured):
    """A restore took the prefix over.  Stop, and delete no more objects."""


async def claim_prefix(
    store: ObjectStore, cluster_id: str, *, timeline: int, created_by: str
) -> Owner:
    """Claim the store's prefix for a cluster, if it has not claimed it; return the stored marker.

    Args:
      created_by: the release that claims, for people.

    Raises:
      StoreMisconfigured: another cluster owns the prefix, or Tidegate did not write the marker.
      TimelineOver: this cluster owns it, in a newer timeline.
      StoreUnavailable: repeat the same call.
    """
    wanted = Owner(cluster_id, timeline, created_by)
    try:
        await store.put(OWNER_KEY, msgspec.json.encode(wanted))
    except ObjectExists:
        return await check_owner(store, cluster_id, timeline=timeline, is_copy=True)
    return wanted


async def read_owner(store: ObjectStore) -> Owner | None:
    """Return the marker of a prefix; None if it has none.

    Raises:
      StoreMisconfigured: Tidegate did not write the marker.
      StoreUnavailable: repeat the same call.
    """
    try:
        return _decoded(await store.get(OWNER_KEY))
    except NoSuchObject:
        return None
    except StoreMisconfigured:
        # Read twice: an operator acts on this, and bytes can be damaged in transit.
        return _decoded(await store.get(OWNER_KEY))


def _decoded(marker: bytes) -> Owner:
    try:
        return msgspec.json.decode(marker, type=Owner)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise web_page(marker) or StoreMisconfigured(
            f"{OWNER_KEY} was not written by Tidegate ({error}): use an empty prefix"
        ) from error


async def check_owner(
    store: ObjectStore, cluster_id: str, *, timeline: int, is_copy: bool = False
) -> Owner:
    """Check that the prefix belongs to this cluster in this timeline; return its marker.

    is_copy: the prefix may hold only copies of the log, where no restore opens a timeline.

    Raises:
      StoreMisconfigured: another cluster owns the prefix, or no cluster does, or the timeline was
        opened in another prefix.
      TimelineOver: a newer timeline owns it.
      StoreUnavailable: repeat the same call.
    """
    try:
        return await _check_owner_once(store, cluster_id, timeline, is_copy=is_copy)
    except StoreMisconfigured:
        # Check twice: an operator must act on this, and bytes can be damaged in transit.
        return await _check_owner_once(store, cluster_id, timeline, is_copy=is_copy)


async def _check_owner_once(
    store: ObjectStore, cluster_id: str, timeline: int, *, is_copy: bool
) -> Owner:
    owner = await read_owner(store)
    if owner is None:
        raise StoreMisconfigured(
            f"{OWNER_KEY} is missing: no cluster owns this prefix any more. Check the object"
            " store's URL"
        )
    if owner.cluster_id != cluster_id:
        raise StoreMisconfigured(
            f"cluster {owner.cluster_id} owns this prefix, and this is cluster {cluster_id}:"
            " give each cluster a prefix of its own"
        )
    newest = await newest_timeline(store, owner)
    if newest > timeline:
        raise TimelineOver(
            f"the metadata log of cluster {cluster_id} was restored or repaired: timeline {newest}"
            f" owns this prefix, and this is the old log, of timeline {timeline}. Start the gateway"
            " with the new log, and never use the old one again"
        )
    if newest < timeline and not is_copy:
        raise StoreMisconfigured(
            f"the metadata log of cluster {cluster_id} was restored or repaired with another"
            f" prefix: it is of timeline {timeline}, and this prefix of {newest}. Use the prefix"
            " that it was restored with"
        )
    return owner


async def see_mark_stays(store: ObjectStore) -> None:
    """Check that the store refuses a second owner marker.

    Raises:
      StoreMisconfigured: the store overwrites objects.
      StoreUnavailable: the outcome is unknown; repeat the same call.
    """
    try:
        marker, again = await store.get(OWNER_KEY), await store.get(OWNER_KEY)
    except NoSuchObject:
        raise StoreUnavailable(f"{OWNER_KEY} has disappeared since it was read") from None
    if marker != again:
        # If the store overwrites objects, it must not get damaged bytes.
        raise StoreUnavailable(f"two reads of {OWNER_KEY} differ: it was damaged in transit")
    await see_create_if_absent(store, OWNER_KEY, marker)


async def newest_timeline(store: ObjectStore, owner: Owner) -> int:
    """Return the timeline that owns the prefix.

    Raises:
      StoreMisconfigured: an object that is no marker lies among the markers.
      StoreUnavailable: repeat the same call.
    """
    newest, start_after = owner.timeline, ""
    while page := await store.list(TIMELINE_FOLDER, start_after=start_after):
        for info in page:
            newest = max(newest, _timeline_of(info.key))
        start_after = page[-1].key
    return newest


def _timeline_of(key: str) -> int:
    try:
        return parse_timeline_key(key)
    except ValueError as error:
        raise StoreMisconfigured(f"{key} was not written by Tidegate: remove it") from error


async def open_timeline(
    store: ObjectStore, owner: Owner, *, above: int, opened_by: str, nonce: str
) -> int:
    """Take the prefix over for a new timeline; return its number.

    Args:
      above: the new number is larger than this timeline, even if the store holds no marker of it.
      nonce: distinguishes this call's marker from another's if the first reply was lost.

    Raises:
      StoreMisconfigured: an object that is no marker lies among the markers.
      StoreUnavailable: repeat the call; a number may stay unused.
    """
    body = msgspec.json.encode(
        {"cluster_id": owner.cluster_id, "opened_by": opened_by, "nonce": nonce}
    )
    while True:
        timeline = max(above, await newest_timeline(store, owner)) + 1
        try:
            await store.put(timeline_key(timeline), body)
        except ObjectExists:
            if await store.get(timeline_key(timeline)) != body:
                continue
        return timeline
