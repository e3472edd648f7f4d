"""The loggers of a gateway, and changes of their levels by clients (KIP-412).

A change holds until the gateway stops.  Each gateway has its own levels.  Texts are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidegate_coordination.rules.configs import (
    NODE_ID,
    Change,
    ConfigRefusal,
    ConfigRefused,
    Operation,
    ResourceChange,
    ResourceType,
    form_refused,
)
from tidegate_runtime.log_levels import LEVELS, ROOT, LogLevels

from .config_changes import REPEATED, repeated

LOGGER: Final = ResourceType.BROKER_LOGGER.value
LOGGERS: Final = (
    "tidegate.app",
    "tidegate.audit",
    "tidegate.authorizer",
    "tidegate.backup",
    "tidegate.clients",
    "tidegate.connection",
    "tidegate.coordinator",
    "tidegate.cost",
    "tidegate.disk_cache",
    "tidegate.dispatch",
    "tidegate.draining",
    "tidegate.fetch",
    "tidegate.forwarding",
    "tidegate.gateway",
    "tidegate.gateways",
    "tidegate.housekeeper",
    "tidegate.http",
    "tidegate.links",
    "tidegate.list_offsets",
    "tidegate.log",
    "tidegate.log_serve",
    "tidegate.log_service",
    "tidegate.neighbours",
    "tidegate.orphans",
    "tidegate.produce",
    "tidegate.proxied",
    "tidegate.quotas",
    "tidegate.salvage",
    "tidegate.sealing",
    "tidegate.security",
    "tidegate.server",
    "tidegate.settings",
    "tidegate.slow_requests",
    "tidegate.startup",
    "tidegate.time_search",
    "tidegate.tls",
    "tidegate.tokens",
    "tidegate.topics",
    "tidegate.transactions",
    "tidegate.upkeep",
    "tidegate.visitor",
    "tidegate.wal",
    "tidegate.zone",
)
"""A test compares them with the code."""
_VALID: Final = ", ".join(sorted(LEVELS))


@dataclass(frozen=True, slots=True)
class GatewayLoggers:
    """The loggers of this gateway, as BROKER_LOGGER resources show them."""

    levels: LogLevels
    node_id: int

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield each logger, and the root, with its level."""
        for each in (*LOGGERS, ROOT):
            yield each, self.levels.of(each)

    def change(
        self, resources: Sequence[ResourceChange], *, validate_only: bool
    ) -> list[ConfigRefused | None]:
        """Change levels; return a result for each resource.  A resource changes as a whole."""
        twice = repeated(resources)
        return [
            REPEATED
            if (LOGGER, each.resource_name) in twice
            else self._changed(each, validate_only=validate_only)
            for each in resources
        ]

    def _changed(self, resource: ResourceChange, *, validate_only: bool) -> ConfigRefused | None:
        refused = form_refused(resource) or self._misses(resource.resource_name)
        refused = refused or next(filter(None, map(_refused, resource.changes)), None)
        if refused is None and not validate_only:
            for each in resource.changes:
                self._apply(each)
        return refused

    def _misses(self, name: str) -> ConfigRefused | None:
        """Return a refusal if a resource is not this gateway's."""
        if not NODE_ID.fullmatch(name):
            text = f"Node id must be an integer, but it is: {name}"
        elif int(name) != self.node_id:
            text = f"Unexpected node id. Expected {self.node_id}, but received {name}"
        else:
            return None
        return ConfigRefused(ConfigRefusal.INVALID_REQUEST, text)

    def _apply(self, change: Change) -> None:
        if change.operation is Operation.DELETE:
            self.levels.unset(change.name)
        else:
            self.levels.set(change.name, change.value or "")


def _refused(change: Change) -> ConfigRefused | None:
    name = change.name
    if change.operation in (Operation.APPEND, Operation.SUBTRACT):
        text = f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource"
        return ConfigRefused(ConfigRefusal.INVALID_REQUEST, text)
    if name != ROOT and name not in LOGGERS:
        return ConfigRefused(ConfigRefusal.INVALID_CONFIG, f"Logger {name} does not exist!")
    if change.operation is Operation.DELETE:
        if name != ROOT:
            return None
        text = "Removing the log level of the root logger is not allowed"
        return ConfigRefused(ConfigRefusal.INVALID_REQUEST, text)
    if change.value in LEVELS:
        return None
    text = (
        f"Cannot set the log level of {name} to {change.value} as it is not a supported log level."
        f" Valid log levels are {_VALID}"
    )
    return ConfigRefused(ConfigRefusal.INVALID_CONFIG, text)
