"""Whether the gateways of a run share quotas.  Drawn apart from all other plans.

There is a quota only in the trial at the end (probers/quota_trial.py), so that the other clients of
the run notice nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

OWNER_DIES: Final = "quotas.owner_dies"
OTHER_DIES: Final = "quotas.other_dies"
ALONE: Final = "quotas.alone"
PAIR: Final = "quotas.pair"
LOSSY: Final = "quotas.lossy"
MOVES: Final = "quotas.moves"
DEAF: Final = "quotas.deaf"
MUTE: Final = "quotas.mute"
STRIKES: Final = (OWNER_DIES, OTHER_DIES, ALONE, PAIR, LOSSY, MOVES)
ONE_WAY: Final = (DEAF, MUTE)
OF_CONSUMERS: Final = (OWNER_DIES, OTHER_DIES, ALONE, PAIR, LOSSY, *ONE_WAY)
"""
owner_dies, other_dies  the gateway that divides the quota dies, or another one
alone                   a gateway reaches no other one, and its clients do
pair                    two gateways do not reach each other
lossy                   half of the answers about shares are lost
moves                   the clients of two gateways want more or less
deaf                    no other gateway's question reaches a gateway, but its own reach them
mute                    the other way round
"""
_SHARE: Final = 0.06
_MAX_STRIKES: Final = 3
ONE_WAY_SHARE: Final = 0.5
CONSUMERS_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """strikes: the faults of gateways in the trial, one after the other; empty: no trial.

    of_consumers: the faults while consumers share a quota; empty: consumers have no quota.
    """

    strikes: tuple[str, ...] = ()
    of_consumers: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of all gateways."""
        return {"quota.scope": "cluster"} if self.strikes else {}


def draw_quotas(seed: int, *, may_draw: bool) -> QuotaPlan:
    """Draw the plan; may_draw: all gateways know quotas, and clocks are right."""
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
    rng = Random(f"{seed}/quotas 16434")
    if rng.random() >= _SHARE or not may_draw:
        return QuotaPlan()
    strikes: list[str] = rng.sample(STRIKES, rng.randint(1, _MAX_STRIKES))
    # Drawn from other random numbers, so that the trials drawn above stay the same.
    rng = Random(f"{seed}/quotas one way")
    if rng.random() < ONE_WAY_SHARE:
        strikes.append(rng.choice(ONE_WAY))
    if rng.random() >= CONSUMERS_SHARE:
        return QuotaPlan(tuple(strikes))
    of_consumers = rng.sample(OF_CONSUMERS, rng.randint(1, _MAX_STRIKES))
    return QuotaPlan(tuple(strikes), tuple(of_consumers))
