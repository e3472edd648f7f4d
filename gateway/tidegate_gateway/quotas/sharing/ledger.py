"""The shares that this gateway has granted of the quotas that it owns.  Pure; times are in ms.

Each request names the share that its gateway holds.  For each gateway the owner counts the larger
of the held share and the last granted one.  It does so until the gateway's next request, which
shows that the gateway knows the new share, or until KEPT_MS without a request.  A grant never makes
the sum larger than the quota: a share grows only after others have given theirs back.

A gateway that becomes silent without giving its share back continues with quota / live gateways.
The owner reserves this amount for SILENT_MS, or until that gateway does not answer the owner.

A new owner does not know the grants of its predecessor.  So for KEPT_MS it grants no gateway more
than the share that the gateway says it holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from .fair_shares import fair_shares, floor_of
from .held_share import KEPT_MS

MAX_QUOTAS: Final = 30_000
"""The most quotas that this gateway divides; for others it gives no answer."""


SILENT_MS: Final = 6_000
"""After this time other gateways have noticed that a gateway does not answer (peers/neighbours.py).
"""


class Wanted(NamedTuple):
    """A gateway's request for a share; all values are in the unit of the quota."""

    quota: float
    demand: float
    held: float


class Members(Protocol):
    """See membership.Membership.

    live: all gateways.  suspects: gateways that do not answer this one.  changed_ms: when this
    gateway may have become the owner.  epoch: rises when owners change.
    """

    live: frozenset[int]
    suspects: frozenset[int]
    changed_ms: int
    epoch: int


class _Granted(NamedTuple):
    """The largest share that a gateway may hold, and its last request."""

    wanted: Wanted
    most: float
    at_ms: int


class _Quota:
    """One quota.  learns_until_ms: until then this owner is new.  epoch: of the last request."""

    __slots__ = ("epoch", "granted", "learns_until_ms")

    def __init__(self, learns_until_ms: int, epoch: int) -> None:
        self.learns_until_ms = learns_until_ms
        self.epoch = epoch
        self.granted: dict[int, _Granted] = {}


class ShareLedger:
    """The shares that are granted of each quota."""

    def __init__(self) -> None:
        self._quotas: OrderedDict[bytes, _Quota] = OrderedDict()

    def __len__(self) -> int:
        return len(self._quotas)

    def grant(
        self, key: bytes, asker: int, wanted: Wanted, members: Members, now_ms: int
    ) -> float | None:
        """Return the share of a gateway that asks; None if there is no room for this quota."""
        quota = self._quota(key, members, now_ms)
        if quota is None:
            return None
        granted = quota.granted
        granted.pop(asker, None)
        value = min(each.wanted.quota for each in (*granted.values(), _Granted(wanted, 0, 0)))
        if wanted.demand <= 0:
            return floor_of(value, len(members.live | {asker}))
        share = _share(granted, asker, wanted.demand, members.live, value, now_ms)
        if now_ms < quota.learns_until_ms:
            share = min(share, wanted.held)
        granted[asker] = _Granted(wanted, max(share, wanted.held), now_ms)
        return share

    def _quota(self, key: bytes, members: Members, now_ms: int) -> _Quota | None:
        found = self._quotas.get(key)
        if found is None and not self._has_room(now_ms):
            return None
        if found is not None:
            for each, row in list(found.granted.items()):
                if _is_over(row, now_ms, is_missed=each not in members.live - members.suspects):
                    del found.granted[each]
        # Old grants do not show whether another gateway has owned the quota since.  No other
        # gateway has owned it if this gateway granted in the epoch before.
        if found is None or not found.granted or members.epoch - found.epoch > 1:
            found = self._quotas[key] = _Quota(members.changed_ms + KEPT_MS, members.epoch)
        found.epoch = members.epoch
        self._quotas.move_to_end(key)
        return found

    def _has_room(self, now_ms: int) -> bool:
        if len(self._quotas) < MAX_QUOTAS:
            return True
        key, oldest = next(iter(self._quotas.items()))
        if not all(_is_over(each, now_ms, is_missed=True) for each in oldest.granted.values()):
            return False
        del self._quotas[key]
        return True


def _share(
    granted: Mapping[int, _Granted],
    asker: int,
    demand: float,
    live: frozenset[int],
    value: float,
    now_ms: int,
) -> float:
    """Return the fair share, or the part of the quota that is not granted if that is less.

    granted: to other gateways.  value: of the quota.
    """
    count = len(live | granted.keys() | {asker})
    silent = {each for each, row in granted.items() if now_ms - row.at_ms > KEPT_MS}
    even = value / count
    demands = {each: even if each in silent else row.wanted.demand for each, row in granted.items()}
    demands[asker] = demand
    taken = sum(even if each in silent else row.most for each, row in granted.items())
    taken += (count - len(demands)) * floor_of(value, count)
    return min(fair_shares(demands, count, value)[asker], max(value - taken, 0.0))


def _is_over(granted: _Granted, now_ms: int, *, is_missed: bool) -> bool:
    age_ms = now_ms - granted.at_ms
    return age_ms > SILENT_MS or (is_missed and age_ms > KEPT_MS)
