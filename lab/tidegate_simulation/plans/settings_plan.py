"""The cluster-wide settings of each gateway of a run at its start.

Drawn apart from all other faults.  A careful value keeps all records for longer than a run lasts.
A brief value lets gateways remove records that are a few seconds old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

RETENTION: Final = "log.retention.ms"
LAG: Final = "log.cleaner.min.compaction.lag.ms"
BRIEF: Final = {RETENTION: "8000", LAG: "0"}
_CAREFUL: Final = {RETENTION: ("-1", "604800000", "-9223372036854775808"), LAG: ("604800000",)}
_SHARE: Final = 0.25


def _nothing() -> dict[int, dict[str, str]]:
    return {}


@dataclass(frozen=True, slots=True)
class SettingsPlan:
    """static: the settings of each gateway, by node id; empty if the run tests something else."""

    static: Mapping[int, Mapping[str, str]] = field(default_factory=_nothing)

    def of(self, node_id: int) -> Mapping[str, str]:
        """Return the settings of a gateway."""
        return self.static.get(node_id, {})

    def is_careful(self, node_id: int, name: str) -> bool:
        """Return whether a gateway's settings keep all records."""
        return self.static[node_id][name] != BRIEF[name]


def draw_static(seed: int, gateways: int, *, may_draw: bool) -> SettingsPlan:
    """Draw the settings of gateways 1 to `gateways`; may_draw: every gateway announces its
    settings.

    At least one gateway has a careful retention, because topics of other clients also set no
    retention, and must keep all records.
    """
    rng = Random(f"{seed}/static settings")
    if not may_draw or rng.random() >= _SHARE:
        return SettingsPlan()
    share = rng.choice((0.0, 0.3, 0.5))
    keeper = rng.randint(1, gateways)

    def drawn(node_id: int, name: str) -> str:
        is_careful = rng.random() < share or (name == RETENTION and node_id == keeper)
        return rng.choice(_CAREFUL[name]) if is_careful else BRIEF[name]

    numbers = range(1, gateways + 1)
    return SettingsPlan(
        {number: {name: drawn(number, name) for name in BRIEF} for number in numbers}
    )
