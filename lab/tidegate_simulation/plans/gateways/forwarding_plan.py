"""The forwarding gateways of a run and the faults between gateways; drawn apart from all others.

question_lost   the request is lost, and the asker times out
answer_lost     the gateway decided, and its answer is lost
again           the request arrives again, up to a minute later
garbled         the bytes of the answer are no answer
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

    only_forward: node ids of gateways that do not reach the log.  rates: by kind.
    """

    is_on: bool = False
    only_forward: frozenset[int] = frozenset()
    rates: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the drawn kinds."""
        return tuple(self.rates)

    @property
    def settings_of_gateways(self) -> dict[str, str]:
        """Return the settings of forwarding gateways."""
        return {"forwarding": "on"} if self.is_on else {}


def draw_forwarding(seed: int, last_node: int, *, is_calm: bool) -> ForwardingPlan:
    """Draw the forwarding of a run.

    last_node: the gateway that may only forward; if a clock is wrong, it is this gateway's.
    """
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
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
