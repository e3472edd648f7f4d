"""Operators who drain gateways, drawn apart from all else.

operator_drain   a gateway is marked in the log, by way of another; later it is resumed, restarted,
                 or left as it is
"""

from __future__ import annotations

from random import Random
from typing import Final

DRAIN_KIND: Final = "operator_drain"
_SHARE: Final = 0.15


def has_drains(seed: int) -> bool:
    """Tell whether operators drain gateways in a seed, and whether somebody watches that."""
    # The number leaves alone the seeds by which planted bugs are known to be found.
    return Random(f"{seed}/drains 1").random() < _SHARE
