"""The zones of the gateways and clients of a run, and the cuts between parts of the world.

Without `--zones` each gateway has a zone of its own, or all share one zone and lend each other
objects.  With `--zones` each zone has at least one gateway, clients have zones, too, and the
following kinds are drawn apart from all others:

partition.log          calls of a gateway reach the log, and no answer returns
partition.store        a gateway cannot reach the store
partition.store_deaf   its calls reach the store, and no answer returns
partition.peers        two gateways cannot reach each other, or one cannot reach the other
partition.clients      some clients cannot reach a gateway, or it does not reach them
partition.zones        nothing passes between two zones, or nothing in one direction
partition.alone        a zone reaches nothing outside of it: no log, no store, no other zone
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tidegate_coordination.forwarding.contention import ENOUGH

PREFIX: Final = "partition."
BETWEEN_ZONES: Final = (f"{PREFIX}zones", f"{PREFIX}alone")
PARTITION_KINDS: Final = (
    f"{PREFIX}log",
    f"{PREFIX}store",
    f"{PREFIX}store_deaf",
    f"{PREFIX}peers",
    f"{PREFIX}clients",
    *BETWEEN_ZONES,
)
GATEWAYS: Final = 3
_MAX_MORE_GATEWAYS: Final = 3
_SHARE: Final = 0.25
_MAX_KINDS: Final = 3
_NO_ZONE_SHARE: Final = 0.2
_ZONED_SHARE: Final = 0.2
_LENDING_SHARE: Final = 0.25


def has_zones(seed: int) -> bool:
    """Return whether probers ask for zones in a seed."""
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
    return Random(f"{seed}/zones 3705").random() < _ZONED_SHARE


def lends(seed: int) -> bool:
    """Return whether all gateways of a seed share a zone and lend each other objects."""
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
    return not has_zones(seed) and Random(f"{seed}/lending 1370").random() < _LENDING_SHARE


@dataclass(frozen=True, slots=True)
class ZonePlan:
    """The zones of one seed.

    asked: the number of `--zones`, 0 without.  of_gateways: by node id.  lend: gateways of a zone
    lend each other objects.  is_probed: gateways probe each other, and probers ask where clients of
    a zone should connect.
    """

    seed: int
    asked: int = 0
    of_gateways: Mapping[int, str] = field(default_factory=dict[int, str])
    lend: bool = False
    is_probed: bool = False
    kinds: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Return all zones."""
        return sorted(set(self.of_gateways.values()))

    @property
    def last_gateway(self) -> int:
        """Return the highest node id."""
        return max(self.of_gateways)

    @property
    def after_lost_races(self) -> int:
        """Return how many lost appends in a row make a gateway hand over; 1 if gateways lend."""
        return 1 if lends(self.seed) else ENOUGH

    def of_client(self, name: str) -> str:
        """Return the zone of a client; "" if it knows no zone."""
        if not self.asked:
            return ""
        rng = Random(f"{self.seed}/zone of {name}")
        return "" if rng.random() < _NO_ZONE_SHARE else rng.choice(self.names)


def draw_zones(seed: int, asked: int, *, is_calm: bool) -> ZonePlan:
    """Return the zones of a run; asked: 0 to MAX_ZONES."""
    if not asked:
        lend = lends(seed)
        zones = {each: "zone-1" if lend else f"zone-{each}" for each in range(1, GATEWAYS + 1)}
        return ZonePlan(seed, of_gateways=zones, lend=lend, is_probed=has_zones(seed))
    rng = Random(f"{seed}/{asked} zones")
    more = rng.randint(0, min(asked, _MAX_MORE_GATEWAYS))
    zones = {
        each: f"zone-{each if each <= asked else rng.randint(1, asked)}"
        for each in range(1, max(GATEWAYS, asked) + more + 1)
    }
    able = [each for each in PARTITION_KINDS if asked > 1 or each not in BETWEEN_ZONES]
    drawn = [each for each in able if rng.random() < _SHARE and not is_calm]
    kinds = sorted(rng.sample(drawn, min(len(drawn), _MAX_KINDS)))
    return ZonePlan(seed, asked, zones, lend=True, is_probed=True, kinds=tuple(kinds))
