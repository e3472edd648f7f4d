"""Who forwards in a run, and what goes wrong between gateways; drawn apart from all else.

question_lost   nothing arrives, and the asker waits in vain
answer_lost     it was decided, and the asker does not hear of it
again           the question arrives once more, up to a minute later
garbled         what comes back is no answer
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

PREFIX: Final = "forward."
FORWARDING_KINDS: Final = tuple(
    f"{PREFIX}{each}" for each in ("question_lost", "answer_lost", "again", "garbled")
)
SHARE: Final = 0.1
_ONLY_FORWARDS_SHARE: Final = 0.4


@dataclass(frozen=True, slots=True)
class ForwardingPlan:
    """The forwarding of one seed.

    only_forward: node ids of those that do not reach the log.  rates: by kind.
    """

    is_on: bool = False
    only_forward: frozenset[int] = frozenset()
    rates: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return what was drawn."""
        return tuple(self.rates)

    @property
    def settings_of_gateways(self) -> dict[str, str]:
        """Return what gateways that forward are set to."""
        return {"forwarding": "on"} if self.is_on else {}


def draw_forwarding(seed: int, last_node: int, *, is_calm: bool) -> ForwardingPlan:
    """Return the forwarding of a run.

    last_node: the one that may only forward; its clock is the wrong one where any is.
    """
    # The number leaves alone the seeds by which planted bugs are known to be found.
    if Random(f"{seed}/forwarding 20").random() >= SHARE:
        return ForwardingPlan()
    rng = Random(f"{seed}/forwarding")
    only_forwards = rng.random() < _ONLY_FORWARDS_SHARE
    share = 0.0 if is_calm else rng.choice((0.0, 0.4, 0.8))
    drawn = [each for each in FORWARDING_KINDS if rng.random() < share]
    return ForwardingPlan(
        is_on=True,
        only_forward=frozenset({last_node} if only_forwards else ()),
        rates={each: rng.choice((0.02, 0.1, 0.3)) for each in drawn},
    )
