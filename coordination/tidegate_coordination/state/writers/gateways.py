"""Live gateways, and the clocks that give log time.

A lease is measured in lease time.  Lease time advances by the time between two entries of one
gateway, by that gateway's own clock.  Each gap counts for at most a third of the lease.  So no
lease expires because the log did not answer for an hour, or because a clock leaps or is wrong.

Only the clock of an entry's appender advances lease time, because the appender has just folded all
earlier entries.  A forwarded proposal carries the time at which it was made, and the time since
then may have been counted already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ...events.cluster import (
    Endpoint,
    GatewayDrained,
    GatewayDraining,
    GatewayExpired,
    GatewayRegistered,
    GatewayResumed,
)
from ...events.metadata_versions import FIRST
from ..broken import StateBroken, expect

DEFAULT_LEASE_MS = 30_000


class Reading(NamedTuple):
    """The clocks of a gateway when it appended an entry, and the lease time then."""

    clock_ms: int
    uptime_ms: int
    lease_time_ms: int


NOTHING_YET = Reading(0, -1, 0)


@dataclass(slots=True)
class Gateway:
    """One live incarnation.

    renewed_at_ms: when it last renewed its lease, in lease time.  clock_ms, uptime_ms: its clocks
    in its last entry or proposal.
    wrote: its clocks when it last appended an entry.
    stops, is_drained: of a draining gateway; see events/. highest_version: the metadata.version up
    to which it can read.
    """

    incarnation: int
    node_id: int
    instance_key: str
    zone: str
    endpoints: tuple[Endpoint, ...]
    software_version: str
    draining: bool
    renewed_at_ms: int
    clock_ms: int
    uptime_ms: int = -1
    stops: bool = False
    is_drained: bool = False
    highest_version: int = FIRST
    wrote: Reading = NOTHING_YET

    @property
    def is_broker(self) -> bool:
        """Return whether clients can be sent to it; a pipeline driver has a node id below zero."""
        return self.node_id >= 0

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return its advertised endpoint of a listener."""
        return next((each for each in self.endpoints if each.listener == listener), None)


class GatewayTable:
    """All live incarnations, and where the objects of former ones lie.

    lease_ms: how long a gateway that writes nothing stays alive while others write.
    """

    def __init__(self) -> None:
        self.lease_ms = DEFAULT_LEASE_MS
        self.live: dict[int, Gateway] = {}
        self.homes: dict[int, tuple[int, str]] = {}
        self.next_incarnation = 1
        self.lease_time_ms = 0
        self.version = 0

    def is_live(self, incarnation: int) -> bool:
        """Return whether the incarnation may still write."""
        return incarnation in self.live

    def by_node_id(self, node_id: int) -> Gateway | None:
        """Return the live gateway with a node id."""
        return next((each for each in self.live.values() if each.node_id == node_id), None)

    def brokers(self) -> list[Gateway]:
        """Return the live gateways that clients know, by node id."""
        brokers = (each for each in self.live.values() if each.is_broker)
        return sorted(brokers, key=lambda each: each.node_id)

    def serving(self) -> list[Gateway]:
        """Return the gateways that take new work, by node id; all brokers if all are draining."""
        live = self.brokers()
        return [each for each in live if not each.draining] or live

    def sends_away(self, incarnation: int) -> bool:
        """Return whether clients should leave a gateway: it drains, and another one does not.

        A lone gateway serves to its end, and so do all gateways if all of them drain.
        """
        me = self.live.get(incarnation)
        if me is not None and not me.draining:
            return False
        return any(not each.draining for each in self.brokers())

    def has_others(self, incarnation: int) -> bool:
        """Return whether another gateway takes new work."""
        others = (each for each in self.brokers() if each.incarnation != incarnation)
        return any(not each.draining for each in others)

    def median_clock_ms(self, writer: int, clock_ms: int) -> int:
        """Return the lower median of the live gateways' clocks, the writer's being clock_ms.

        The writer's clock counts as the others do, even if the writer is not registered.
        """
        counted = self._clocks()
        clocks = [each.clock_ms for each in counted if each.incarnation != writer]
        if len(clocks) < len(counted) or writer not in self.live:
            clocks.append(clock_ms)
        clocks.sort()
        return clocks[(len(clocks) - 1) // 2]

    def earlier_of_median_and(self, time_ms: int) -> int:
        """Return the lower median of the live gateways' clocks, or the time given if earlier."""
        clocks = sorted([each.clock_ms for each in self._clocks()])
        return min(time_ms, clocks[(len(clocks) - 1) // 2]) if clocks else time_ms

    def _clocks(self) -> list[Gateway]:
        """Return the gateways whose clocks count: brokers, or all if there is none.

        Each start of a pipeline's driver is another incarnation, so dead drivers could outvote live
        gateways, and delay their own expiry.
        """
        live = self.live.values()
        return [each for each in live if each.node_id >= 0] or list(live)

    def expired(self) -> list[int]:
        """Return the incarnations whose lease expired."""
        before = self.lease_time_ms - self.lease_ms
        return [each.incarnation for each in self.live.values() if each.renewed_at_ms < before]

    def fold_clock(self, writer: int, clock_ms: int, uptime_ms: int = -1) -> None:
        """Fold the time of an entry, which renews its writer's lease.

        The writer's uptime, or else its wall clock, gives the time since its last entry.
        """
        gateway = self.live.get(writer) or self._ended_by_nobody(writer)
        if gateway is None:
            return
        last = gateway.wrote
        is_up = uptime_ms >= 0 and last.uptime_ms >= 0
        passed_ms = uptime_ms - last.uptime_ms if is_up else clock_ms - last.clock_ms
        passed_ms = min(max(passed_ms, 0), self.lease_ms // 3)
        self.lease_time_ms = max(self.lease_time_ms, last.lease_time_ms + passed_ms)
        gateway.wrote = Reading(clock_ms, uptime_ms, self.lease_time_ms)
        self._fold_sign_of_life(gateway, clock_ms, uptime_ms)

    def fold_asked(self, author: int, clock_ms: int, uptime_ms: int) -> None:
        """Fold a proposal in another gateway's entry: it renews its author's lease."""
        gateway = self._ended_by_nobody(author)
        if gateway is not None:
            self._fold_sign_of_life(gateway, clock_ms, uptime_ms)

    def _ended_by_nobody(self, writer: int) -> Gateway | None:
        gateway = self.live.get(writer)
        if gateway is None and writer:
            raise StateBroken(f"entry of incarnation {writer}, which ended")
        return gateway

    def _fold_sign_of_life(self, gateway: Gateway, clock_ms: int, uptime_ms: int) -> None:
        gateway.renewed_at_ms = self.lease_time_ms
        if not 0 <= uptime_ms < gateway.uptime_ms:  # a proposal that arrived late
            gateway.clock_ms = clock_ms
            gateway.uptime_ms = uptime_ms

    def fold_registered(self, event: GatewayRegistered, clock_ms: int, uptime_ms: int = -1) -> None:
        """Begin an incarnation, ending the one it supersedes."""
        expect(event.incarnation == self.next_incarnation, f"incarnation {event.incarnation}")
        if event.supersedes:
            expect(event.supersedes in self.live, f"superseded {event.supersedes} is not live")
            del self.live[event.supersedes]
        self.next_incarnation += 1
        self.version += 1
        self.homes[event.incarnation] = (event.node_id, event.zone)
        self.live[event.incarnation] = Gateway(
            event.incarnation,
            event.node_id,
            event.instance_key,
            event.zone,
            event.endpoints,
            event.software_version,
            draining=False,
            renewed_at_ms=self.lease_time_ms,
            clock_ms=clock_ms,
            uptime_ms=uptime_ms,
            highest_version=event.highest_version,
            wrote=Reading(clock_ms, uptime_ms, self.lease_time_ms),
        )

    def fold_renewed(self, author: int, highest_version: int) -> None:
        """Fold the metadata.version that a renewing gateway says it can read."""
        gateway = self.live.get(author)
        if gateway is not None:
            gateway.highest_version = max(gateway.highest_version, highest_version)

    def fold_draining(self, event: GatewayDraining) -> None:
        """Mark a gateway that is about to leave."""
        expect(event.incarnation in self.live, f"draining {event.incarnation} is not live")
        gateway = self.live[event.incarnation]
        gateway.draining, gateway.stops = True, gateway.stops or event.stops
        self.version += 1

    def fold_resumed(self, event: GatewayResumed) -> None:
        """End the draining of a gateway."""
        gateway = self._draining(event.incarnation)
        gateway.draining = gateway.stops = gateway.is_drained = False
        self.version += 1

    def fold_drained(self, event: GatewayDrained) -> None:
        """Note that a gateway may be stopped."""
        self._draining(event.incarnation).is_drained = True

    def _draining(self, incarnation: int) -> Gateway:
        expect(incarnation in self.live, f"gateway {incarnation} is not live")
        gateway = self.live[incarnation]
        expect(gateway.draining, f"gateway {incarnation} is not draining")
        return gateway

    def fold_expired(self, event: GatewayExpired) -> None:
        """End an incarnation."""
        expect(event.incarnation in self.live, f"expired {event.incarnation} is not live")
        del self.live[event.incarnation]
        self.version += 1

    def fold_all_ended(self, first_incarnation: int) -> None:
        """End all incarnations; the next ones are numbered from `first_incarnation`."""
        expect(first_incarnation >= self.next_incarnation, f"incarnation {first_incarnation} again")
        self.live.clear()
        self.next_incarnation = first_incarnation
        self.version += 1

    def fold_found(self, incarnation: int, node_id: int, zone: str) -> None:
        """Add an incarnation whose registration was lost."""
        expect(incarnation not in self.homes, f"incarnation {incarnation} is known")
        expect(incarnation < self.next_incarnation, f"incarnation {incarnation} is yet to come")
        self.homes[incarnation] = (node_id, zone)

    def encode(self) -> object:
        """Return the whole table as builtins."""
        rows = [
            [
                each.incarnation,
                each.node_id,
                each.instance_key,
                each.zone,
                [[point.listener, point.host, point.port] for point in each.endpoints],
                each.software_version,
                each.draining,
                each.renewed_at_ms,
                each.clock_ms,
                each.uptime_ms,
                each.stops,
                each.is_drained,
            ]
            for _, each in sorted(self.live.items())
        ]
        # The versions are kept separate from the rows, so that releases without versions can read
        # the rows.
        highest = [[number, each.highest_version] for number, each in sorted(self.live.items())]
        wrote = [[number, *each.wrote] for number, each in sorted(self.live.items())]
        homes = [[number, *home] for number, home in sorted(self.homes.items())]
        return {
            "live": rows,
            "highest": highest,
            "wrote": wrote,
            "homes": homes,
            "next": self.next_incarnation,
            "lease": self.lease_ms,
            "lease_time": self.lease_time_ms,
        }

    def decode(self, table: Mapping[str, Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        for row in table["live"]:
            row[4] = tuple(msgspec.convert(point, Endpoint) for point in row[4])
            gateway = self.live[row[0]] = Gateway(*row)
            gateway.wrote = Reading(gateway.clock_ms, gateway.uptime_ms, gateway.renewed_at_ms)
        for number, *clocks in table.get("wrote", ()):
            self.live[number].wrote = Reading(*clocks)
        for number, highest in table.get("highest", ()):
            self.live[number].highest_version = highest
        self.homes = {number: (node_id, zone) for number, node_id, zone in table["homes"]}
        self.next_incarnation = table["next"]
        self.lease_ms = table["lease"]
        self.lease_time_ms = table["lease_time"]
