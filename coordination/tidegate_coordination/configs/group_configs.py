"""Configs of groups and of client metrics subscriptions, as in Apache Kafka 4.3.1.

The configs are only kept and shown.  Classic groups have no configs; those of share and streams
groups have no effect until Tidegate has these protocols.
"""

from __future__ import annotations

from .definition import (
    Check,
    ConfigType,
    Definition,
    at_least,
    one_of,
    share_offset_reset,
)

_NOT_YET = "Kept for tools: groups of this kind are not served yet."


def _row(
    name: str, kind: ConfigType, default: str, check: Check | None, synonym: str | None
) -> Definition:
    return Definition(name, kind, default, check, _NOT_YET, synonym, meaningful=False)


def _number(name: str, default: int, check: Check) -> Definition:
    return _row(name, ConfigType.INT, str(default), check, f"group.{name}")


GROUP_CONFIGS: dict[str, Definition] = {
    row.name: row
    for row in (
        _number("consumer.assignment.interval.ms", 1000, at_least(0)),
        _number("consumer.heartbeat.interval.ms", 5000, at_least(1)),
        _number("consumer.session.timeout.ms", 45000, at_least(1)),
        _number("share.assignment.interval.ms", 1000, at_least(0)),
        _row("share.auto.offset.reset", ConfigType.STRING, "latest", share_offset_reset, None),
        _number("share.delivery.count.limit", 5, at_least(2)),
        _number("share.heartbeat.interval.ms", 5000, at_least(1)),
        _row(
            "share.isolation.level",
            ConfigType.STRING,
            "read_uncommitted",
            one_of("read_committed", "read_uncommitted"),
            None,
        ),
        _number("share.partition.max.record.locks", 2000, at_least(100)),
        _number("share.record.lock.duration.ms", 30000, at_least(1000)),
        _row("share.renew.acknowledge.enable", ConfigType.BOOLEAN, "true", None, None),
        _number("share.session.timeout.ms", 45000, at_least(1)),
        _number("streams.assignment.interval.ms", 1000, at_least(0)),
        _number("streams.heartbeat.interval.ms", 5000, at_least(1)),
        _number("streams.initial.rebalance.delay.ms", 3000, at_least(0)),
        _number("streams.num.standby.replicas", 0, at_least(0)),
        _number("streams.session.timeout.ms", 45000, at_least(1)),
    )
}

CLIENT_METRICS_CONFIGS: dict[str, Definition] = {
    row.name: row
    for row in (
        Definition(
            "interval.ms",
            ConfigType.INT,
            "300000",
            None,
            "How often a client should send its metrics.",
        ),
        Definition("match", ConfigType.LIST, "", None, "Which clients should send metrics."),
        Definition("metrics", ConfigType.LIST, "", None, "Prefixes of the metrics to send."),
    )
}
