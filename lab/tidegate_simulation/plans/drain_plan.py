"""Operators who drain gateways, drawn apart from all else.

operator_drain   a gateway is marked in the log, by way of another; later it is resumed, restarted,
                 or left as it is
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from .zone_plan import PARTITION_KINDS

DRAIN_KIND: Final = "operator_drain"
# A gateway that cannot reach the log goes on answering heartbeats, so that an outage expires
# nobody.  If it is the only one, others may take its groups meanwhile, and expire the members.
_OUT_OF_TOUCH: Final = frozenset({"log.hung", "isolate", *PARTITION_KINDS})
_SHARE: Final = 0.15


def draws_drains(seed: int, *, has_wrong_clocks: bool) -> bool:
    """Tell whether operators drain gateways in a seed, and whether somebody watches that.

    They let more than one go at a time; one wrong clock of three is outvoted, of two it is not.
    """
    # The number leaves alone the seeds by which planted bugs are known to be found.
    return not has_wrong_clocks and Random(f"{seed}/drains 1").random() < _SHARE


def may_stay(kinds: Collection[str]) -> bool:
    """Tell whether nothing that befalls gateways makes members of groups join again."""
    return _OUT_OF_TOUCH.isdisjoint(kinds)
