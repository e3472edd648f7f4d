"""Divides a whole quota among gateways, max-min fair.  Pure.

The smallest demands are met in full; the gateways with larger demands get equal shares.  If all
demands are met, the rest is divided equally among the gateways that ask, so that there is room for
higher demands.  A gateway that does not ask has a small floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FLOOR_PART: Final = 0.01
"""The part of a quota that all floors together take."""


def floor_of(quota: float, live: int) -> float:
    """Return the part of a quota that a gateway has without asking.

    live: the number of gateways, at least 1.
    """
    return quota * FLOOR_PART / live


def fair_shares(demands: Mapping[int, float], live: int, quota: float) -> dict[int, float]:
    """Return the shares of the gateways that ask.

    These shares and the floors of the other gateways add up to the quota.

    demands: by gateway, in the unit of the quota.  live: the number of all gateways.
    """
    floor = floor_of(quota, live)
    left = quota - floor * (live - len(demands))
    shares: dict[int, float] = {}
    wanted = sorted((max(demand, floor), gateway) for gateway, demand in demands.items())
    for place, (want, gateway) in enumerate(wanted):
        shares[gateway] = min(want, left / (len(wanted) - place))
        left -= shares[gateway]
    return {gateway: share + left / len(shares) for gateway, share in shares.items()}
