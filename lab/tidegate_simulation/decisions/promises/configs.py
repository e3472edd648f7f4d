"""The promises of answers about configs: the set values hold, and nothing else changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .moment import Moment

TOPIC: Final = 2


class ConfigPromises:
    """See the module's head."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._set: Final[dict[tuple[int, str], dict[str, str]]] = {}

    def set(self, kind: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Record an accepted change; None: no longer set.  name: of a topic, its id in hex."""
        configs = self._set.setdefault((kind, name), {})
        for key, value in changes.items():
            if value is None:
                configs.pop(key, None)
            else:
                configs[key] = value

    def begin(self, topic_id: bytes) -> None:
        """Take over the present configs of a topic that has followed its source until now."""
        topic = self._moment.truth.topics.by_id.get(topic_id)
        if topic is not None:
            self._set[TOPIC, topic_id.hex()] = dict(topic.configs)

    def forget(self, topic_id: bytes) -> None:
        """Record that a topic is gone, or follows its source."""
        self._set.pop((TOPIC, topic_id.hex()), None)

    def check(self) -> None:
        """Compare all."""
        state = self._moment.truth
        for (kind, name), configs in self._set.items():
            if kind == TOPIC:
                topic = state.topics.by_id.get(bytes.fromhex(name))
                found: Mapping[str, str] = topic.configs if topic is not None else {}
            else:
                found = state.configs.get(kind, name)
            if found != configs:
                self._moment.complain(f"{kind} {name} has configs {found} instead of {configs}")
