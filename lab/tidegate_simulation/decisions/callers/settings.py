"""Configs, and the level of the cluster."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.events.cluster import ConfigsSet
from tidegate_coordination.events.metadata_versions import NEWEST
from tidegate_coordination.rules.configs import (
    Change,
    ConfigRefusal,
    ConfigRefused,
    Operation,
    ResourceChange,
    SetConfigs,
)
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion

from ..decider import Decider
from ..promises.configs import TOPIC
from .known import GROUPS, Caller, Known

_BROKER: Final = 4
_GROUP: Final = 32
_LONG_AGO: Final = 20


class SettingCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self.operations = (
            (self.set_topic, 3),
            (self.set_other, 2),
            (self.raise_version, 2),
        )

    def _change(self, name: str, value: str) -> tuple[Change, dict[str, str | None]]:
        if self._rng.random() < 0.25:
            return Change(name, Operation.DELETE, None), {name: None}
        return Change(name, Operation.SET, value), {name: value}

    def set_topic(self, decider: Decider) -> None:
        """Set a config of a topic, at times only if none has changed since a position."""
        if not self._known.topics:
            return
        topic_id = self._rng.choice(list(self._known.topics))
        name = self._known.topics[topic_id][0]
        key, values = self._rng.choice(
            (
                ("retention.ms", ("1000", "90000", "-1")),
                ("cleanup.policy", ("delete", "compact", "compact,delete")),
            )
        )
        change, expected = self._change(key, self._rng.choice(values))
        position = decider.state.position
        seen = max(position - self._rng.randint(0, _LONG_AGO), 1) if self._rng.random() < 0.5 else 0
        proposal = SetConfigs(
            [ResourceChange(TOPIC, name, [change])], seen=seen, topic_ids={name: topic_id}
        )
        world = self._world

        def judged(answers: list[ConfigRefused | None], is_told: bool) -> None:
            if answers[0] is None:
                if topic_id in world.records.mirrored:
                    world.complain(f"configs of {name} are set, and it is mirrored")
                world.configs.set(TOPIC, topic_id.hex(), expected)
                if not any(each.resource_name == name for each in world.moment.of_kind(ConfigsSet)):
                    return  # the config is unchanged
                # The noted change may come from another proposal of the same entry.
                if seen and seen < world.changes.get(name, 0) < world.truth.position:
                    world.complain(f"{name} has changed after {seen}, and is changed")
                world.changes[name] = world.truth.position
            elif answers[0].reason is ConfigRefusal.CHANGED and not seen:
                world.complain(f"{name} was never looked at, and has changed")

        world.ask(decider, proposal, judged)

    def set_other(self, decider: Decider) -> None:
        """Set a config of all gateways, or of a group."""
        kind, name, key, values = self._rng.choice(
            (
                (_BROKER, "", "log.retention.ms", ("5000", "70000")),
                (_GROUP, GROUPS[0], "consumer.session.timeout.ms", ("45000", "50000")),
            )
        )
        change, expected = self._change(key, self._rng.choice(values))
        is_trial = self._rng.random() < 0.1
        proposal = SetConfigs([ResourceChange(kind, name, [change])], validate_only=is_trial)

        def judged(answers: list[ConfigRefused | None], is_told: bool) -> None:
            if answers[0] is not None:
                self._world.complain(f"{change} is refused: {answers[0]}")
            elif not is_trial:
                self._world.configs.set(kind, name, expected)

        self._world.ask(decider, proposal, judged)

    def raise_version(self, decider: Decider) -> None:
        """Raise the level, or try to lower it."""
        present = decider.state.metadata_version
        version = min(present + self._rng.choice((-1, 1, 1)), NEWEST)
        is_trial = self._rng.random() < 0.1
        world = self._world

        def judged(refusal: str, is_told: bool) -> None:
            if not refusal and not is_trial:
                if version < world.version:
                    world.complain(f"the level falls from {world.version} to {version}")
                world.version = version

        world.ask(decider, SetMetadataVersion(version, only_checks=is_trial), judged)
