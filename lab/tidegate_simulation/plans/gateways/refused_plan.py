"""Gateways that the object store refuses while others write, drawn apart from all other faults.

refused.all    any call of one gateway, as with expired keys or a wrong clock
refused.put    calls of one kind of one gateway
refused.get
refused.list
refused.zone   any call of the gateways of a zone
refused.puts   PUTs of all gateways, as on a full store: nothing else is wrong, and none may serve
               for another
refused.gets   GETs of all gateways, which have no cache then
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random
from typing import Final

from .zone_plan import PREFIX as PARTITION

PREFIX: Final = "refused."
ZONE: Final = f"{PREFIX}zone"
PUTS: Final = f"{PREFIX}puts"
GETS: Final = f"{PREFIX}gets"
_ALL: Final = frozenset({"put", "get", "list", "delete"})
CALLS: Final[Mapping[str, frozenset[str]]] = {
    f"{PREFIX}all": _ALL,
    f"{PREFIX}put": frozenset({"put"}),
    f"{PREFIX}get": frozenset({"get"}),
    f"{PREFIX}list": frozenset({"list"}),
    ZONE: _ALL,
    PUTS: frozenset({"put"}),
    GETS: frozenset({"get"}),
}
OF_ALL: Final = (PUTS, GETS)
MIN_SECONDS: Final = 2.0
MAX_SECONDS: Final = 40.0
# Of runs without other faults: in such runs the gateways are always judged.
_CALM_SHARE: Final = 0.5
_SHARE: Final = 0.1
_KINDS: Final = 2
# Drawn from other random numbers, so that the other runs stay the same.
OF_ALL_SHARE: Final = 0.25
# With these faults a gateway may read too late that it is marked, or that others are well.
_LATE: Final = frozenset(
    {"isolate", "log_outage", "store_outage", "stall", "crash_all", "restart_storm", "skew"}
)


def draw_refusals(seed: int, *, is_calm: bool) -> tuple[str, ...]:
    """Return the kinds of a seed; most have none."""
    rng = Random(f"{seed}/refused puts 2")
    if rng.random() < (OF_ALL_SHARE if is_calm else OF_ALL_SHARE / 8):
        return (rng.choice(OF_ALL),)
    rng = Random(f"{seed}/refusals")
    if rng.random() >= (_CALM_SHARE if is_calm else _SHARE):
        return ()
    return tuple(sorted(rng.sample([each for each in CALLS if each not in OF_ALL], _KINDS)))


def settings_for(kinds: Collection[str]) -> dict[str, str]:
    """Return the settings of all gateways: if GETs are refused, no cache, so that they read."""
    return {"fetch.cache.bytes": "0"} if GETS in kinds else {}


def is_judged(kinds: Collection[str]) -> bool:
    """Return whether no other fault of the run explains a gateway that does not notice."""
    prefixes = ("log.", "store.", PARTITION)
    return _LATE.isdisjoint(kinds) and not any(each.startswith(prefixes) for each in kinds)
