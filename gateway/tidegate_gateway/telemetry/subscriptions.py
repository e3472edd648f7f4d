"""The metrics that a client has to push, by the subscriptions in the metadata log (KIP-714).  Pure.

All gateways that have read the same log give a client the same subscription id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from tidegate_coordination.configs.client_match import ClientMatch
from tidegate_coordination.configs.definition import Value
from tidegate_coordination.configs.group_configs import CLIENT_METRICS_CONFIGS
from tidegate_coordination.configs.validation import InvalidConfig, parse
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.state.configs import FIRST_NAMES, ConfigTable

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 300_000
"""Kafka's; a longer interval of a subscription has no effect."""
MAX_SUBSCRIPTIONS: Final = FIRST_NAMES
"""The most subscriptions that count, first by name: each is matched with each client, in one step.
"""
_KIND: Final = ResourceType.CLIENT_METRICS.value


class Choice(NamedTuple):
    """The metrics that one client has to push, and how often.

    id: the subscription id.  metrics: sorted prefixes of names; ("*",) for all, () for none.
    """

    id: int
    metrics: tuple[str, ...]
    interval_ms: int

    def wants(self, name: str) -> bool:
        """Return whether the client has to push a metric."""
        return self.metrics == (ALL_METRICS,) or name.startswith(self.metrics)


class _Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    match: ClientMatch


class Subscriptions:
    """The subscriptions of the cluster.

    A subscription whose configs cannot be read applies to no client; earlier releases accepted any
    `match`.
    """

    def __init__(self, configs: ConfigTable) -> None:
        self._configs = configs
        self._read_version = -1
        self._texts: dict[str, Mapping[str, str]] = {}
        self._known: dict[str, _Subscription | None] = {}
        self._version = 0

    @property
    def version(self) -> int:
        """A number that rises when the subscriptions change."""
        if self._read_version != self._configs.version:
            self._read_version = self._configs.version
            self._look()
        return self._version

    def choice_of(self, attributes: Mapping[str, str], instance_id: bytes) -> Choice:
        """Return the metrics that a client has to push.  attributes: see ClientMatch."""
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        for each in self._known.values():
            if each is not None and each.match.matches(attributes):
                metrics.update(each.metrics)
                interval_ms = min(interval_ms, each.interval_ms)
        names = [ALL_METRICS] if ALL_METRICS in metrics else sorted(metrics)
        return Choice(_id_of(names, interval_ms, instance_id), tuple(names), interval_ms)

    def _look(self) -> None:
        names = self._configs.first_names(_KIND)
        texts = {name: self._configs.get(_KIND, name) for name in names}
        if texts == self._texts:
            return
        before, self._texts = self._texts, texts
        self._known = {
            name: self._known[name] if before.get(name) == configs else _read(configs)
            for name, configs in texts.items()
        }
        self._version += 1


def _read(configs: Mapping[str, str]) -> _Subscription | None:
    try:
        metrics, interval_ms = _value(configs, "metrics"), _value(configs, "interval.ms")
        match = ClientMatch(configs.get("match", ""))
    except InvalidConfig:
        return None
    assert isinstance(metrics, tuple)
    assert isinstance(interval_ms, int)
    return _Subscription(metrics, interval_ms, match)


def _value(configs: Mapping[str, str], name: str) -> Value:
    definition = CLIENT_METRICS_CONFIGS[name]
    return parse(definition, configs.get(name, definition.default or ""))


def _id_of(metrics: Iterable[str], interval_ms: int, instance_id: bytes) -> int:
    """Return Kafka's hash: a CRC of the choice, and Java's hash code of the client's id.

    Kafka does not sort the metrics, so with several metrics its ids differ.
    """
    most, least = instance_id[:8], instance_id[8:]
    folded = int.from_bytes(most, "big") ^ int.from_bytes(least, "big")
    text = f"[{', '.join(metrics)}]{interval_ms}"
    unsigned = crc32c(text.encode()) ^ (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned
