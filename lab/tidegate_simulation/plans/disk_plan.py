"""The disk caches of a run, and what goes wrong with them; drawn apart from all else.

torn      the power goes: of what nobody synced, and a cache syncs nothing, some is left
flipped   a bit is wrong after a restart
lost      somebody removes files, or all there is, while a gateway uses them
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

    max_bytes: of each gateway's; 0 for none.  min_send_bytes: what is sent from files.
    """

    max_bytes: int = 0
    min_send_bytes: int = MIN_FILE_BYTES
    kinds: tuple[str, ...] = ()

    @property
    def settings_of_gateways(self) -> dict[str, str]:
        """Return what gateways with such a cache are set to; nothing where there is none."""
        if not self.max_bytes:
            return {}
        return {"disk.cache.max.bytes": str(self.max_bytes)}


def draw_disks(rng: Random, *, is_calm: bool, has_segments: bool) -> DiskPlan:
    """Return the disk caches of a run; only segments are kept there."""
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
