"""Operators who drain gateways, drawn apart from all other faults.

operator_drain   a gateway is marked in the log, by way of another; later it is resumed, restarted,
                 or left as it is
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from .zone_plan import PARTITION_KINDS

DRAIN_KIND: Final = "operator_drain"
# A gateway that cannot reach the log still answers heartbeats, so an outage of the log for all
# gateways expires no member.  If only one gateway is cut off, others may take its groups meanwhile,
# and expire the members.
_OUT_OF_TOUCH: Final = frozenset({"log.hung", "isolate", *PARTITION_KINDS})
_SHARE: Final = 0.15


def draws_drains(seed: int, *, has_wrong_clocks: bool) -> bool:
    """Return whether operators drain gateways in a seed, and whether a prober watches them.

    Operators may drain two gateways at a time, so they drain none in runs with a wrong clock: two
    right clocks outvote the wrong one, but one right clock does not.
    """
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
    return not has_wrong_clocks and Random(f"{seed}/drains 1").random() < _SHARE


def may_stay(kinds: Collection[str]) -> bool:
    """Return whether no fault of the run makes members of groups join again."""
    return _OUT_OF_TOUCH.isdisjoint(kinds)
