"""Gateways that die and stay away for a while, drawn apart from all else.

away   a gateway dies, and is not started again before long; it has landed when another gateway
       finds it absent, so that a run in which nobody notices fails
"""

from __future__ import annotations

from random import Random
from typing import Final

AWAY_KIND: Final = "away"
MIN_AWAY_SECONDS: Final = 5.0
MAX_AWAY_SECONDS: Final = 45.0
_SHARE: Final = 0.5


def draws_away(seed: int, *, is_looked_for: bool, is_calm: bool, has_wrong_clocks: bool) -> bool:
    """Tell whether gateways of a seed stay away.

    is_looked_for: gateways look whether others answer.  One wrong clock of three is outvoted, of
    the two that are left it is not.
    """
    may_happen = is_looked_for and not is_calm and not has_wrong_clocks
    return may_happen and Random(f"{seed}/away").random() < _SHARE
