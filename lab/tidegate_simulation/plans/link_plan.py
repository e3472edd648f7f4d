"""Runs with a link to a classic cluster, drawn apart from all else.

source.broker_down    a broker of the source is down for a while
source.leader_moved   another broker leads a partition
source.connection     all connections to a broker of the source break
source.retention      the source deletes its oldest records, perhaps before they are copied
source.compaction     the source removes records between others
source.slow_replicas  the source's followers fetch nothing for a while
source.malformed      a batch of the source is malformed for a while, without a switch
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

PREFIX: Final = "source."
KINDS: Final = (
    f"{PREFIX}broker_down",
    f"{PREFIX}leader_moved",
    f"{PREFIX}connection",
    f"{PREFIX}retention",
    f"{PREFIX}compaction",
    f"{PREFIX}slow_replicas",
)
# Drawn from other random numbers, so that other runs stay as they were.
MALFORMED: Final = f"{PREFIX}malformed"
SHARE: Final = 0.2
_KIND_SHARE: Final = 0.5
_MALFORMED_SHARE: Final = 0.5
_FOCUS_SHARE: Final = 0.7
_FORWARDS_SHARE: Final = 0.5
_RETURNS_SHARE: Final = 0.6
_GROUPS_SHARE: Final = 0.5
_TRANSACTIONS_SHARE: Final = 0.4
_WHOLE_SHARE: Final = 0.7
_QUICK_SECONDS: Final = 0.02
"""A unit moves within seconds, or not at all."""


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """brokers: of the source, 0 without a link.  settings: of all gateways.

    is_focused: few other clients, so that most operations are at the source.  switches: how many
    topics are switched to the gateways at most.  config_seconds: until a broker of the source
    holds to a changed config, at most.  forwards: whether clients write to mirrored topics through
    gateways.  latency_seconds: the longest delay of a piece of bytes to or from the source.
    returns: whether switched topics go back to the source, and may be switched again.  groups:
    whether gateways forward groups to the source, and groups move here.  transactions: whether they
    forward transactional ids, which move here with their topic and groups.
    """

    brokers: int = 0
    is_focused: bool = False
    kinds: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict[str, str])
    switches: int = 0
    config_seconds: float = 0.0
    forwards: bool = False
    latency_seconds: float = 0.0
    returns: bool = False
    groups: bool = False
    transactions: bool = False

    @property
    def is_on(self) -> bool:
        """Return whether there is a link."""
        return self.brokers > 0


def draw_links(seed: int, *, may_draw: bool, is_calm: bool) -> LinkPlan:
    """Draw the source of a run.  may_draw: gateways read the level of links, and offsets begin at
    0.
    """
    rng = Random(f"{seed}/links")
    if rng.random() >= SHARE or not may_draw:
        return LinkPlan()
    brokers = rng.choice((1, 3))
    kinds = tuple(each for each in KINDS if rng.random() < _KIND_SHARE)
    if brokers == 1:
        kinds = tuple(each for each in kinds if each != f"{PREFIX}leader_moved")
    settings = {
        "link.fetch.wait.ms": rng.choice(("100", "500", "2000")),
        "link.topics.interval.ms": rng.choice(("1000", "5000")),
    }
    is_focused = rng.random() < _FOCUS_SHARE
    switches = rng.choice((0, 1, 3))
    struck = () if is_calm else kinds
    # In KRaft a new leader has read all records from before its election.
    may_lag = not {f"{PREFIX}leader_moved", f"{PREFIX}broker_down"} & set(struck)
    config_seconds = rng.choice((0.0, 0.3)) if may_lag else 0.0
    forwards = rng.random() < _FORWARDS_SHARE
    latency_seconds = rng.choice((0.0, 0.2, 1.0)) if forwards else 0.0
    returns = forwards and switches > 0 and rng.random() < _RETURNS_SHARE
    groups = rng.random() < _GROUPS_SHARE
    if groups and not forwards:
        latency_seconds = rng.choice((0.0, 0.2, 1.0))
    plan = LinkPlan(
        brokers,
        is_focused,
        struck,
        settings,
        switches,
        config_seconds,
        forwards,
        latency_seconds,
        returns,
        groups=groups,
    )
    if not switches and not is_calm and Random(f"{seed}/malformed").random() < _MALFORMED_SHARE:
        plan = replace(plan, kinds=(*plan.kinds, MALFORMED))
    draw = Random(f"{seed}/link transactions")
    has_transactions = forwards and draw.random() < _TRANSACTIONS_SHARE
    return _with_transactions(plan, draw) if has_transactions else plan


def _with_transactions(plan: LinkPlan, rng: Random) -> LinkPlan:
    """Return a plan in which the source loses no records, because committed ones are counted."""
    without = {f"{PREFIX}retention", f"{PREFIX}compaction"}
    if rng.random() < _WHOLE_SHARE:
        without.add(f"{PREFIX}broker_down")
    kinds = tuple(each for each in plan.kinds if each not in without)
    latency_seconds = min(plan.latency_seconds, _QUICK_SECONDS)
    return replace(
        plan, kinds=kinds, is_focused=True, latency_seconds=latency_seconds, transactions=True
    )
