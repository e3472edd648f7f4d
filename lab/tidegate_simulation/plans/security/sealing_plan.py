"""Whether gateways seal SCRAM credentials, and how an operator replaces their key; such a run has
clients that log in.  Drawn apart from all other plans.

first_key   the gateways begin without a key, and get one
another     they begin with a key, and get another one

An operator goes from stage to stage as docs/operations/sasl.md says (nemesis/key_keeper.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

REPLACED: Final = "sealing.key_replaced"
SHARE: Final = 0.08
KEYS: Final = tuple(f"{each}-secret-key-of-the-simulated-gateways" for each in ("first", "second"))
_ONE, _OTHER = KEYS


class Stage(NamedTuple):
    """metadata.secret.key and metadata.secret.old.keys, both empty without a key."""

    key: str
    old_keys: str

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of a gateway."""
        named = {"metadata.secret.key": self.key, "metadata.secret.old.keys": self.old_keys}
        return {name: value for name, value in named.items() if value}


_FIRST_KEY: Final = (Stage("", ""), Stage("", _ONE), Stage(_ONE, ""))
_ANOTHER: Final = (
    Stage(_ONE, ""),
    Stage(_ONE, _OTHER),
    Stage(_OTHER, _ONE),
    Stage(_OTHER, ""),
)


@dataclass(frozen=True, slots=True)
class SealingPlan:
    """stages: the settings of all gateways, stage by stage; empty: no gateway seals."""

    stages: tuple[Stage, ...] = ()

    @property
    def is_on(self) -> bool:
        """Return whether gateways seal."""
        return bool(self.stages)

    @property
    def first_settings(self) -> dict[str, str]:
        """Return the settings with which each gateway begins."""
        return self.stages[0].settings if self.stages else {}


def draw_sealing(seed: int, *, may_draw: bool) -> SealingPlan:
    """Draw the plan; may_draw: clients may log in."""
    # The number in this text keeps the draws of seeds that tests name.
    rng = Random(f"{seed}/sealing 81")
    if rng.random() >= SHARE or not may_draw:
        return SealingPlan()
    return SealingPlan(rng.choice((_FIRST_KEY, _ANOTHER)))
