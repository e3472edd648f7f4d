"""The part that hosts consumer groups."""

from __future__ import annotations

from collections.abc import Callable

from tidegate_coordination.groups.settings import GroupSettings

from ..feature import Ground
from ..groups.group_manager import GroupManager
from ..settings.broker_settings import BrokerSettings


def group_manager(ground: Ground, absent: Callable[[], frozenset[int]]) -> GroupManager:
    """Make the manager.  absent: the incarnations to which no client is sent."""
    settings = group_settings(ground.settings)
    rng = ground.environment.rng
    return GroupManager(ground.coordinator, settings, rng=rng, absent=absent)


def group_settings(settings: BrokerSettings) -> GroupSettings:
    """Return this gateway's values of Kafka's group settings."""
    return GroupSettings(
        initial_rebalance_delay_ms=settings.int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=settings.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=settings.int("group.max.session.timeout.ms"),
        max_size=settings.int("group.max.size"),
        offset_metadata_max_bytes=settings.int("offset.metadata.max.bytes"),
    )
