"""Compiled settings of topics, made again when a topic's or the brokers' configs change.

A value in the log that no rule would take today is told of once, and harms no other topic.
"""

from __future__ import annotations

from typing import Final

import structlog

from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.topic_settings import TopicSettings, compile_topic_settings
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.topics import Topic

from .broker_settings import BrokerSettings

MAX_TOLD: Final = 10_000
_SHOWN_CHARACTERS: Final = 100

_log = structlog.get_logger("tidegate.settings")


class TopicSettingsCache:
    """of(topic) costs a dictionary look-up while nothing changes."""

    def __init__(self, state: ClusterState, settings: BrokerSettings) -> None:
        self._state = state
        self._settings = settings
        self._configs_version = -1
        self._layers: BrokerLayers | None = None
        self._cached: dict[bytes, tuple[int, TopicSettings]] = {}
        self._told: set[tuple[str, str, str]] = set()

    def of(self, topic: Topic) -> TopicSettings:
        """Return a topic's settings as of now."""
        if self._configs_version != self._state.configs.version:
            self._configs_version = self._state.configs.version
            self._layers = self._settings.layers(self._state.configs)
            self._cached.clear()
        cached = self._cached.get(topic.topic_id)
        if cached is not None and cached[0] == topic.version:
            return cached[1]
        assert self._layers is not None
        settings = compile_topic_settings(
            topic.configs, self._layers, lambda name, text: self._tell(topic, name, text)
        )
        if len(self._cached) > len(self._state.topics.by_id) + 100:
            self._cached.clear()  # topics that were deleted
        self._cached[topic.topic_id] = (topic.version, settings)
        return settings

    def _tell(self, topic: Topic, name: str, text: str) -> None:
        """Warn of a value that is stored and wrong; of a gateway's not again for each topic."""
        owner = topic.name if name in topic.configs else ""
        if (owner, name, text) in self._told or len(self._told) == MAX_TOLD:
            return
        self._told.add((owner, name, text))
        _log.warning(
            "a config that is stored cannot be used, and another value holds: set it anew",
            config=name,
            value=text[:_SHOWN_CHARACTERS],
            where=f"topic {owner}" if owner else "gateways",
        )
