"""The disk caches of a run and their faults; drawn apart from all other faults.

torn      the power fails: only some unsynced data survives, and a cache syncs nothing
flipped   a bit is wrong after a restart
lost      some files, or all of them, are removed while a gateway uses them
full      nothing can be written for a while
broken    nothing can be read or written for a while
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tidegate_gateway.fetch.fetch_plan import MIN_FILE_BYTES

PREFIX = "disk."
DISK_KINDS = tuple(f"{PREFIX}{each}" for each in ("torn", "flipped", "lost", "full", "broken"))
_MAX_KINDS = 2


@dataclass(frozen=True, slots=True)
class DiskPlan:
    """The disk caches of one seed.

    max_bytes: of each gateway's; 0 for none.  min_send_bytes: the smallest part that is sent from
    its file.
    """

    max_bytes: int = 0
    min_send_bytes: int = MIN_FILE_BYTES
    kinds: tuple[str, ...] = ()

    @property
    def settings_of_gateways(self) -> dict[str, str]:
        """Return the settings of gateways with a disk cache; none if the run has no disk caches."""
        if not self.max_bytes:
            return {}
        return {"disk.cache.max.bytes": str(self.max_bytes)}


def draw_disks(rng: Random, *, is_calm: bool, has_segments: bool) -> DiskPlan:
    """Draw the disk caches of a run; only segments are cached."""
    if not has_segments or rng.random() < 0.4:
        return DiskPlan()
    share = 0.0 if is_calm else rng.choice((0.0, 0.3, 0.6))
    drawn = [each for each in DISK_KINDS if rng.random() < share]
    chosen = rng.sample(drawn, min(len(drawn), _MAX_KINDS))
    return DiskPlan(
        # Every file takes a block, however small.
        rng.choice((8_192, 65_536, 1 << 30)),
        rng.choice((1, 1, 300, 32_768)),
        tuple(each for each in DISK_KINDS if each in chosen),
    )
