"""Whether the gateways of a run have an authorizer.  Drawn apart from all other plans.

Without ACLs everything is allowed, so that the other clients of the run notice nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

TOPIC: Final = "guarded"
ADMIN: Final = "guarded admin"
_SHARE: Final = 0.2
_ADMINS_SHARE: Final = 0.5
_SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@dataclass(frozen=True, slots=True)
class RightsPlan:
    """is_on: rights of clients are given and taken away while they work.

    has_admin: so is a right of an administrator; it has its own random numbers, so that the other
    runs stay the same.
    """

    is_on: bool = False
    has_admin: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of all gateways."""
        return dict(_SETTINGS) if self.is_on else {}


def draw_rights(seed: int, *, may_draw: bool) -> RightsPlan:
    """Draw the plan; may_draw: all gateways know ACLs."""
    rng = Random(f"{seed}/rights")
    is_on = may_draw and rng.random() < _SHARE
    return RightsPlan(is_on, is_on and Random(f"{seed}/guarded admin").random() < _ADMINS_SHARE)
