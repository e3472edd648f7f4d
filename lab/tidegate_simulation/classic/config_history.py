"""The configs of a topic over time, as each broker sees them.  Pure.

The controller decides at once; a broker applies a change when it has read it, so for a while two
leaders of one topic may apply different values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .topic_settings import TopicSettings, settings_of


class _Version(NamedTuple):
    configs: dict[str, str]
    settings: TopicSettings
    seen_from: dict[int, float]  # by node id; other nodes see the version at once


class ConfigHistory:
    """All versions of a topic's configs; times are in seconds, of any one clock."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        self._versions = [_Version(dict(configs), settings_of(configs), {})]

    @property
    def latest(self) -> dict[str, str]:
        """The controller's configs, without defaults."""
        return dict(self._versions[-1].configs)

    def change(self, configs: Mapping[str, str], seen_from: Mapping[int, float]) -> None:
        """Make these the configs; a broker sees them from its time in `seen_from` on.

        Each broker sees the changes in their order.
        """
        before = self._versions[-1].seen_from
        times = {
            node_id: max(time, before.get(node_id, 0.0)) for node_id, time in seen_from.items()
        }
        self._versions.append(_Version(dict(configs), settings_of(configs), times))

    def configs(self, node_id: int, now: float) -> dict[str, str]:
        """Return the configs that a broker knows, without defaults."""
        return dict(self._seen(node_id, now).configs)

    def settings(self, node_id: int, now: float) -> TopicSettings:
        """Return the settings that a leader on that broker applies."""
        return self._seen(node_id, now).settings

    def _seen(self, node_id: int, now: float) -> _Version:
        for version in reversed(self._versions):
            if version.seen_from.get(node_id, now) <= now:
                return version
        return self._versions[0]
