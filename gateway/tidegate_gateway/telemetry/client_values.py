"""Metrics that clients pushed, by client id and software, within limits.  Pure.

Instances with the same client id and software count as one client here.  A gauge shows the largest
value in the last pushes of these instances.  A counter shows the sum of all deltas since the client
first pushed.  Values that differ only in attributes (topic, node) are combined in the same way.
Beyond a limit, counters are summed under OTHER, and gauges are dropped and counted.  Times are
milliseconds of a monotonic clock.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from .instances import FORGET_AFTER_INTERVALS
from .otlp import Pushed
from .subscriptions import Choice

MAX_CLIENTS: Final = 200
MAX_SERIES: Final = 10_000
"""Of all clients."""
MAX_SERIES_OF_CLIENT: Final = 250
MAX_GAUGES: Final = 20_000
"""Values of gauges by instance; those of the instance that pushed first make room."""
PREFIX: Final = "tidegate_client_"
_KAFKA: Final = "org.apache.kafka."
_TOTAL: Final = "_total"
_UNFIT = re.compile(r"[^a-zA-Z0-9_]")


class Client(NamedTuple):
    """The name of a client on the metrics page.  Clients choose both parts freely."""

    client_id: str
    software: str


OTHER: Final = Client("_other", "_other")


@dataclass(slots=True)
class _Known:
    """names: the series of a client.

    ends_ms: when the client is forgotten unless it pushes again.
    """

    ends_ms: float = 0.0
    names: set[str] = field(default_factory=set[str])
    counters: dict[str, float] = field(default_factory=dict[str, float])


class _Gauges(NamedTuple):
    client: Client
    ends_ms: float
    values: Mapping[str, float]


class ClientValues:
    """See the module's head.

    points: the number of pushed metrics by outcome: shown, other (counted under OTHER), beyond
    (over a limit), unsubscribed, ignored (see otlp.py).
    """

    def __init__(self) -> None:
        self.points: Counter[str] = Counter()
        self._known: dict[Client, _Known] = {}
        self._gauges: OrderedDict[bytes, _Gauges] = OrderedDict()
        self._gauge_count = 0
        self._series = 0

    def __len__(self) -> int:
        """Return how many clients have series of their own."""
        return len(self._known) - (OTHER in self._known)

    def take(
        self, client: Client, instance_id: bytes, choice: Choice, pushed: Pushed, now_ms: float
    ) -> None:
        """Keep the values of a push that the subscription asks for."""
        self._forget_clients(now_ms)
        ends_ms = now_ms + FORGET_AFTER_INTERVALS * choice.interval_ms
        own = self._room_for(client)
        if own is not None:
            own.ends_ms = max(own.ends_ms, ends_ms)
        self.points["ignored"] += pushed.ignored
        for name, value in self._wanted(choice, pushed.deltas):
            self._count(own, _counter_name(name), value, ends_ms)
        gauges: dict[str, float] = {}
        for name, value in self._wanted(choice, pushed.gauges):
            shown = _gauge_name(name)
            if own is not None and self._has_room(own, shown):
                gauges[shown] = max(value, gauges.get(shown, value))
                self.points["shown"] += 1
            else:
                self.points["beyond"] += 1
        self._keep_gauges(instance_id, _Gauges(client, ends_ms, gauges))

    def forget_silent(self, now_ms: float) -> None:
        """Forget the clients that pushed nothing for three of their intervals.

        It looks at all instances, so call it for each metrics page, not for each push.
        """
        self._forget_clients(now_ms)
        for instance_id in [key for key, each in self._gauges.items() if each.ends_ms <= now_ms]:
            self._drop_gauges(instance_id)

    def counters(self) -> Iterator[tuple[str, Client, float]]:
        """Yield name, client and value of each counter."""
        for client, known in self._known.items():
            for name, value in known.counters.items():
                yield name, client, value

    def gauges(self) -> Iterator[tuple[str, Client, float]]:
        """Yield name, client and value of each gauge; call forget_silent() first."""
        largest: dict[tuple[str, Client], float] = {}
        for each in self._gauges.values():
            for name, value in each.values.items():
                key = name, each.client
                largest[key] = max(value, largest.get(key, value))
        for (name, client), value in largest.items():
            yield name, client, value

    def _forget_clients(self, now_ms: float) -> None:
        for client in [each for each, known in self._known.items() if known.ends_ms <= now_ms]:
            self._series -= len(self._known.pop(client).names)

    def _wanted(self, choice: Choice, values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        for name, value in values.items():
            if choice.wants(name):
                yield name, value
            else:
                self.points["unsubscribed"] += 1

    def _room_for(self, client: Client) -> _Known | None:
        known = self._known.get(client)
        if known is None and len(self) < MAX_CLIENTS:
            known = self._known[client] = _Known()
        return known

    def _has_room(self, known: _Known, name: str) -> bool:
        if name in known.names:
            return True
        is_full = self._series >= MAX_SERIES and known is not self._known.get(OTHER)
        if is_full or len(known.names) >= MAX_SERIES_OF_CLIENT:
            return False
        known.names.add(name)
        self._series += 1
        return True

    def _count(self, own: _Known | None, name: str, delta: float, ends_ms: float) -> None:
        if own is not None and self._has_room(own, name):
            self.points["shown"] += 1
        else:
            own = self._known.setdefault(OTHER, _Known())
            own.ends_ms = max(own.ends_ms, ends_ms)
            is_in = self._has_room(own, name)
            self.points["other" if is_in else "beyond"] += 1
            if not is_in:
                return
        own.counters[name] = own.counters.get(name, 0.0) + delta

    def _keep_gauges(self, instance_id: bytes, gauges: _Gauges) -> None:
        self._drop_gauges(instance_id)
        if not gauges.values:
            return
        self._gauges[instance_id] = gauges
        self._gauge_count += len(gauges.values)
        while self._gauge_count > MAX_GAUGES:
            self._drop_gauges(next(iter(self._gauges)))

    def _drop_gauges(self, instance_id: bytes) -> None:
        dropped = self._gauges.pop(instance_id, None)
        if dropped is not None:
            self._gauge_count -= len(dropped.values)


def _counter_name(name: str) -> str:
    return _shown(name).removesuffix(_TOTAL) + _TOTAL


def _gauge_name(name: str) -> str:
    # So no gauge can have the name of a counter, whatever names clients push.
    shown = _shown(name)
    while shown.endswith(_TOTAL):
        shown = shown.removesuffix(_TOTAL)
    return shown if shown.startswith(PREFIX) else PREFIX


def _shown(name: str) -> str:
    return PREFIX + _UNFIT.sub("_", name.removeprefix(_KAFKA))
