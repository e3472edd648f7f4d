"""Gateways that die and stay absent for a while, drawn apart from all other faults.

away   a gateway dies and restarts only much later; the fault has landed when another gateway
       finds it absent, so a run in which no gateway notices fails
"""

from __future__ import annotations

from random import Random
from typing import Final

AWAY_KIND: Final = "away"
MIN_AWAY_SECONDS: Final = 5.0
MAX_AWAY_SECONDS: Final = 45.0
_SHARE: Final = 0.5


def draws_away(seed: int, *, is_looked_for: bool, is_calm: bool, has_wrong_clocks: bool) -> bool:
    """Return whether gateways of a seed stay absent.

    is_looked_for: gateways probe each other.

    No gateway stays absent in runs with a wrong clock: two right clocks outvote the wrong one, but
    one right clock does not.
    """
    may_happen = is_looked_for and not is_calm and not has_wrong_clocks
    return may_happen and Random(f"{seed}/away").random() < _SHARE
