"""What goes wrong in a run: each seed draws its own subset of faults, with rates and timings.

A run with every fault at once tests little, since nothing gets far ("swarm testing").  So each kind
is in or out by the toss of a coin, and some runs are calm.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from random import Random

from tidegate_coordination.logs.faulty import LogFaults

from .store import StoreFaults

LOG_KINDS = tuple(each.name for each in fields(LogFaults) if each.name != "slow_seconds")
STORE_KINDS = tuple(each.name for each in fields(StoreFaults) if not each.name.endswith("seconds"))
# What happens to whole gateways and connections:
#   crash        all memory lost, at any moment
#   crash_point  the same, just before or after a call to log or store
#   drain        the orderly stop
#   cut          all connections of a gateway reset
#   hang         connections of a gateway stay open and carry nothing for a while
#   isolate      a gateway cannot reach the log for longer than its lease
#   skew         one wall clock is wrong by a day (landed from the start)
EVENT_KINDS = ("crash", "crash_point", "drain", "cut", "hang", "isolate")
KINDS = (
    *(f"log.{each}" for each in LOG_KINDS),
    *(f"store.{each}" for each in STORE_KINDS),
    *EVENT_KINDS,
    "skew",
)
_CALM_SHARE = 0.1
_DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One seed's faults.  kinds: the names that were drawn, of KINDS.

    event_seconds: mean time between two events.  latency_seconds: the longest a packet takes.
    """

    kinds: tuple[str, ...]
    log: LogFaults
    store: StoreFaults
    events: tuple[str, ...]
    event_seconds: float
    latency_seconds: float
    skew_seconds: float


def draw_plan(rng: Random) -> FaultPlan:
    """Return the faults of a run."""
    calm = rng.random() < _CALM_SHARE
    share = 0.0 if calm else rng.choice((0.15, 0.3, 0.5))
    kinds = tuple(each for each in KINDS if rng.random() < share)
    rates = {each: rng.choice((0.05, 0.15, 0.3)) for each in KINDS}
    slow_seconds = rng.choice((0.5, 2.0, 8.0))
    return FaultPlan(
        kinds,
        LogFaults(**_rates("log.", kinds, rates), slow_seconds=slow_seconds),
        StoreFaults(**_rates("store.", kinds, rates), slow_seconds=slow_seconds),
        tuple(each for each in EVENT_KINDS if each in kinds),
        rng.choice((1.0, 3.0, 10.0)),
        rng.choice((0.0, 0.01, 0.3)),
        _DAY_SECONDS * rng.choice((-1, 1)) if "skew" in kinds else 0.0,
    )


def _rates(prefix: str, kinds: tuple[str, ...], rates: dict[str, float]) -> dict[str, float]:
    return {each.removeprefix(prefix): rates[each] for each in kinds if each.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Landed:
    """Which faults had an effect, and which were drawn in vain."""

    counts: dict[str, int]
    missing: tuple[str, ...]


def tally(plan: FaultPlan, landed: Counter[str]) -> Landed:
    """Compare what was promised with what struck."""
    missing = tuple(each for each in plan.kinds if not landed[each])
    return Landed(dict(sorted(landed.items())), missing)
