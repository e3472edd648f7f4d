"""The faults of a run: each seed draws its own subset, with rates and timings.

A run with every fault at once tests little, because its clients make no progress ("swarm testing").
So each kind is in or out by the toss of a coin, and some runs are calm.  A drawn kind is a promise:
the run is prolonged until the kind has landed, and fails if it never lands.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tidegate_coordination.log_contract.faulty import LogFaults

from .beginnings import Beginnings
from .disk_plan import DiskPlan
from .gateways.forwarding_plan import ForwardingPlan
from .gateways.zone_plan import ZonePlan
from .link_plan import LinkPlan
from .losses import LossPlan
from .malformed_plan import MalformedPlan
from .move_plan import LogMovePlan
from .pipeline_plan import EVENT_KINDS as PIPELINE_EVENT_KINDS
from .pipeline_plan import PipelinePlan
from .security.login_plan import LoginPlan
from .security.quota_plan import QuotaPlan
from .security.rights_plan import RightsPlan
from .settings_plan import SettingsPlan
from .store_faults import StoreFaults
from .transaction_plan import TransactionPlan
from .version_plan import VersionPlan

# See LogFaults and StoreFaults.
LOG_KINDS = (
    "ambiguous_append",
    "lost_append",
    "late_append",
    "read_error",
    "snapshot_error",
    "snapshot_damage",
    "lost_wakeup",
    "slow",
    "hung",
)
STORE_KINDS = (
    "lost_put",
    "ambiguous_put",
    "late_put",
    "read_error",
    "truncated_get",
    "flipped_bit",
    "missing_object",
    "delete_error",
    "throttled",
    "slow",
    "hung",
)
# Events that strike whole gateways and their connections; see nemesis.py:
#   crash            all memory lost, at any moment
#   crash_point      the same, just before or after a call to log or store
#   crash_all        all gateways at once
#   restart_storm    one gateway dies again and again, as soon as it is up or sooner
#   drain            the orderly stop
#   rolling_restart  one gateway after the other stops in order
#   stall            a gateway is stopped while the world continues (SIGSTOP)
#   isolate          a gateway cannot reach the log, often for longer than its lease
#   log_outage       no gateway can
#   store_outage     no gateway can reach the store
#   cut              all connections of a gateway are reset
#   hang             they carry nothing for a while
#   half_open        they carry nothing forever, and neither side gets an error
#   one_way          they carry nothing in one direction for a while
#   trickle          they carry a few bytes a second
#   partition        no client can reach a gateway, on old connections or new ones
#   clock_forward, clock_back  one wall clock jumps
GATEWAY_KINDS = (
    "crash",
    "crash_point",
    "crash_all",
    "restart_storm",
    "drain",
    "rolling_restart",
    "stall",
    "isolate",
    "log_outage",
    "store_outage",
)
LINK_KINDS = ("cut", "hang", "half_open", "one_way", "trickle", "partition")
CLOCK_KINDS = ("clock_forward", "clock_back")
EVENT_KINDS = (*GATEWAY_KINDS, *LINK_KINDS, *CLOCK_KINDS)
# One wall clock is wrong by a day, or runs far too fast or too slow, from the start.
WRONG_CLOCKS = ("skew", "drift")
KINDS = (
    *(f"log.{each}" for each in LOG_KINDS),
    *(f"store.{each}" for each in STORE_KINDS),
    *EVENT_KINDS,
    *WRONG_CLOCKS,
)
_CALM_SHARE = 0.1
_MAX_EVENT_KINDS = 4
_MAX_RATE_KINDS = 6
_DAY_SECONDS = 86_400.0
_RARE = frozenset({"log.hung", "store.hung", "log.snapshot_damage"})


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One seed's faults.

    kinds: the drawn names, of KINDS, PIPELINE_KINDS, LOSS_KINDS and DISK_KINDS.  event_seconds:
    mean time between two events.  latency_seconds: the longest delay of a packet.  skew_seconds,
    clock_rate: of the one wrong clock.
    """

    kinds: tuple[str, ...]
    log: LogFaults
    store: StoreFaults
    events: tuple[str, ...]
    event_seconds: float
    latency_seconds: float
    skew_seconds: float
    clock_rate: float
    pipelines: PipelinePlan = field(default_factory=PipelinePlan)
    losses: LossPlan = field(default_factory=LossPlan)
    disks: DiskPlan = field(default_factory=DiskPlan)
    forwarding: ForwardingPlan = field(default_factory=ForwardingPlan)
    zones: ZonePlan = field(default_factory=lambda: ZonePlan(0))
    moves: LogMovePlan = field(default_factory=LogMovePlan)
    versions: VersionPlan = field(default_factory=VersionPlan)
    static: SettingsPlan = field(default_factory=SettingsPlan)
    beginnings: Beginnings = field(default_factory=Beginnings)
    transactions: TransactionPlan = field(default_factory=TransactionPlan)
    links: LinkPlan = field(default_factory=LinkPlan)
    rights: RightsPlan = field(default_factory=RightsPlan)
    logins: LoginPlan = field(default_factory=LoginPlan)
    quotas: QuotaPlan = field(default_factory=QuotaPlan)
    malformed: MalformedPlan = field(default_factory=MalformedPlan)

    def with_losses(self, losses: LossPlan) -> FaultPlan:
        """Return a plan with objects that are lost for good."""
        return replace(
            self,
            kinds=(*self.kinds, *losses.kinds),
            events=(*self.events, *losses.kinds),
            losses=losses,
        )

    def with_pipelines(self, pipelines: PipelinePlan) -> FaultPlan:
        """Return a plan with pipelines and their faults."""
        events = tuple(each for each in pipelines.kinds if each in PIPELINE_EVENT_KINDS)
        return replace(
            self,
            kinds=(*self.kinds, *pipelines.kinds),
            events=(*self.events, *events),
            pipelines=pipelines,
        )

    def with_disks(self, disks: DiskPlan) -> FaultPlan:
        """Return a plan with disk caches and their faults."""
        return replace(
            self,
            kinds=(*self.kinds, *disks.kinds),
            events=(*self.events, *disks.kinds),
            disks=disks,
        )

    def with_events(self, *kinds: str) -> FaultPlan:
        """Return a plan with further events."""
        return replace(self, kinds=(*self.kinds, *kinds), events=(*self.events, *kinds))

    def with_forwarding(self, forwarding: ForwardingPlan) -> FaultPlan:
        """Return a plan with forwarding gateways and the faults between gateways."""
        kinds = (*self.kinds, *forwarding.kinds)
        return replace(self, kinds=kinds, forwarding=forwarding)

    def with_zones(self, zones: ZonePlan) -> FaultPlan:
        """Return a plan with zones and the cuts between parts."""
        return replace(self.with_events(*zones.kinds), zones=zones)

    def with_moves(self, moves: LogMovePlan) -> FaultPlan:
        """Return a plan with moves of the log."""
        return replace(self, kinds=(*self.kinds, *moves.kinds), moves=moves)

    def with_versions(self, versions: VersionPlan) -> FaultPlan:
        """Return a plan with gateways of an older release, or with damaged entries."""
        return replace(self, kinds=(*self.kinds, *versions.kinds), versions=versions)

    def with_links(self, links: LinkPlan) -> FaultPlan:
        """Return a plan with a link to a classic cluster, and its faults."""
        return replace(self, kinds=(*self.kinds, *links.kinds), links=links)

    @contextmanager
    def held(self) -> Generator[None]:
        """Apply the plan's replacements of the product inside the context."""
        with self.beginnings.hold(), self.transactions.hold(), self.logins.tokens.hold():
            yield

    @property
    def has_wrong_clocks(self) -> bool:
        """Return whether a gateway's clock is wrong, or will be wrong."""
        return _has_wrong_clocks(self.kinds)


def draw_settings(rng: Random) -> dict[str, str]:
    """Return the settings of all gateways of a run: caches, graces and intervals of any size."""
    return {
        "lease.ms": rng.choice(("6000", "30000")),
        "housekeeping.interval.ms": rng.choice(("1000", "10000")),
        "object.delete.grace.ms": rng.choice(("0", "5000", "600000")),
        "snapshot.interval.entries": rng.choice(("10", "100")),
        "wal.max.object.bytes": rng.choice(("1024", "8388608")),
        "wal.upload.slots": rng.choice(("1", "4")),
        "wal.put.timeout.ms": rng.choice(("1000", "30000")),
        "wal.linger.ms": rng.choice(("0", "250", "2000")),
        "fetch.cache.bytes": rng.choice(("0", "500", "1000000")),
        "fetch.max.bytes": rng.choice(("1024", "57671680")),
        "connections.max.idle.ms": rng.choice(("15000", "600000")),
        "group.initial.rebalance.delay.ms": "0",
        "drain.grace.ms": "1000",
    }


def draw_plan(rng: Random, settings: Mapping[str, str]) -> FaultPlan:
    """Return the faults of a run with these settings."""
    calm = rng.random() < _CALM_SHARE
    share = 0.0 if calm else rng.choice((0.05, 0.1, 0.2, 0.35))
    drawn = [each for each in KINDS if rng.random() < share and _can_land(each, settings)]
    kinds = _some(drawn, rng)
    if _has_wrong_clocks(kinds):
        # A gateway with a wrong clock runs no housekeeping, so perhaps no gateway ever deletes.
        kinds = tuple(each for each in kinds if each != "store.delete_error")
    rates = {each: _rate(each, rng) for each in KINDS}
    slow_seconds = rng.choice((0.5, 2.0, 8.0))
    log = LogFaults(
        **_rates("log.", kinds, rates), slow_seconds=slow_seconds, late_calls=rng.choice((3, 40))
    )
    return FaultPlan(
        kinds,
        log,
        StoreFaults(**_rates("store.", kinds, rates), slow_seconds=slow_seconds),
        tuple(each for each in EVENT_KINDS if each in kinds),
        rng.choice((1.0, 3.0, 10.0)),
        rng.choice((0.0, 0.01, 0.3)),
        _DAY_SECONDS * rng.choice((-1, 1)) if "skew" in kinds else 0.0,
        rng.choice((0.1, 0.9, 1.1, 10.0)) if "drift" in kinds else 1.0,
    )


def _has_wrong_clocks(kinds: Iterable[str]) -> bool:
    return any(each in (*CLOCK_KINDS, *WRONG_CLOCKS) for each in kinds)


def _some(drawn: list[str], rng: Random) -> tuple[str, ...]:
    """Return no more kinds than can all land in a run that still makes progress."""
    events = [each for each in drawn if each in EVENT_KINDS]
    rates = [each for each in drawn if each not in EVENT_KINDS]
    chosen = [
        *rng.sample(events, min(len(events), _MAX_EVENT_KINDS)),
        *rng.sample(rates, min(len(rates), _MAX_RATE_KINDS)),
    ]
    return tuple(each for each in KINDS if each in chosen)


def _can_land(kind: str, settings: Mapping[str, str]) -> bool:
    """Return False for faults of calls that a run with these settings may never make."""
    if kind == "store.delete_error":
        # A small object soon holds no live record, and is soon deleted.
        is_small = settings["wal.max.object.bytes"] == "1024"
        is_soon = settings["housekeeping.interval.ms"] == "1000"
        return is_small and is_soon and settings["object.delete.grace.ms"] != "600000"
    if kind in ("log.snapshot_error", "log.snapshot_damage"):
        return settings["snapshot.interval.entries"] == "10"
    return True


def _rate(kind: str, rng: Random) -> float:
    rate = rng.choice((0.02, 0.05, 0.15, 0.3))
    return min(rate, 0.02) if kind in _RARE else rate


def _rates(prefix: str, kinds: tuple[str, ...], rates: dict[str, float]) -> dict[str, Any]:
    return {each.removeprefix(prefix): rates[each] for each in kinds if each.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Landed:
    """The faults that had an effect, and the drawn faults that had none."""

    counts: dict[str, int]
    missing: tuple[str, ...]
