"""Which cluster owns a prefix: a marker object, created if absent, checked at each start."""

from __future__ import annotations

import msgspec

from .keys import OWNER_KEY
from .object_store import ObjectExists, ObjectStore, StoreMisconfigured


class Owner(msgspec.Struct, frozen=True):
    """What the marker says; timeline is the one in which the prefix was claimed."""

    cluster_id: str
    timeline: int
    created_by: str


async def claim_prefix(
    store: ObjectStore, cluster_id: str, *, timeline: int, created_by: str
) -> Owner:
    """Claim the store's prefix for a cluster, or find that it has it; return the marker as stored.

    Args:
      created_by: release that claims, for people.

    Raises:
      StoreMisconfigured: another cluster owns the prefix, or the marker is not ours.
      StoreUnavailable: repeat the same call.
    """
    wanted = Owner(cluster_id, timeline, created_by)
    try:
        await store.put(OWNER_KEY, msgspec.json.encode(wanted))
    except ObjectExists:
        return _checked(await store.get(OWNER_KEY), cluster_id)
    return wanted


def _checked(marker: bytes, cluster_id: str) -> Owner:
    try:
        owner = msgspec.json.decode(marker, type=Owner)
    except msgspec.DecodeError as error:
        raise StoreMisconfigured(
            f"{OWNER_KEY} was not written by Tidegate ({error}): use an empty prefix"
        ) from error
    if owner.cluster_id != cluster_id:
        raise StoreMisconfigured(
            f"cluster {owner.cluster_id} owns this prefix, and this is cluster {cluster_id}:"
            " give each cluster a prefix of its own"
        )
    return owner
