"""Rolling upgrades and damaged entries, drawn apart from all else.

rolling_upgrade     gateways begin as an older release and are restarted one by one as the newer
                    one; then the cluster is raised to its metadata.version (upgrader.py)
late_gateway        one of them is down meanwhile, and comes back as the older release
log.damaged_entry   a byte of an entry that a machine reads is another; only of one with a checksum
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

    damage_rate: of reads, where there is anything to damage.  older: up to which metadata.version
    the older release reads.
    """

    is_rolling: bool = False
    has_late: bool = False
    damage_rate: float = 0.0
    older: int = FIRST

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return what was drawn."""
        drawn = {
            UPGRADE_KIND: self.is_rolling,
            LATE_KIND: self.has_late,
            DAMAGE_KIND: self.damage_rate > 0,
        }
        return tuple(kind for kind, is_drawn in drawn.items() if is_drawn)

    @property
    def first_release(self) -> int:
        """Return the metadata.version up to which gateways read when the run begins."""
        return self.older if self.is_rolling else NEWEST


def draw_versions(
    seed: int, *, is_calm: bool, may_be_late: bool, may_roll: bool = True
) -> VersionPlan:
    """Return the releases of a run.

    may_be_late: a gateway can be away until its lease has run out, and all else still be judged.
    may_roll: no drawn fault needs gateways that run for long.
    """
    # The number leaves alone the seeds by which planted bugs are known to be found.
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
