"""Setting dynamic configs of topics, gateways, groups and client metrics subscriptions.

A resource changes as a whole or not at all; resources of one proposal are independent.  Texts are
Kafka's.  Differs from Kafka: broker configs that Kafka does not know are refused (Kafka keeps them
for plug-ins).  A gateway sets its own log levels; they are not in the log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ..configs.broker_configs import BROKER_CONFIGS, KAFKA_BROKER_CONFIGS
from ..configs.client_match import ClientMatch
from ..configs.definition import LONG_MAX, Definition, Update
from ..configs.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from ..configs.topic_configs import TOPIC_CONFIGS
from ..configs.validation import InvalidConfig, parse, split_list, validate_all
from ..events.cluster import ConfigsSet, Event
from .looked_up import found_topic, mirrored_text
from .proposal import GATEWAYS, TOPICS, Decided, View

MAX_CONFIG_BYTES = 64 * 1024
NODE_ID = re.compile(r"-?[0-9]{1,10}")
"""A number that is no longer than an int32; int() refuses endless ones."""


class ResourceType(Enum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(Enum):
    """An operation on a config; Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One config of one resource.  value: as sent."""

    name: str
    operation: Operation
    value: str | None


class ConfigRefusal(Enum):
    """Why the configs of a resource stay as they are."""

    UNKNOWN_TOPIC = "the topic does not exist"
    INVALID_CONFIG = "a config is wrong"
    INVALID_REQUEST = "the request makes no sense"
    CHANGED = "it was changed since it was looked at"
    MIRRORED = "a link mirrors the topic from another cluster"


class ConfigRefused(NamedTuple):
    """text: for the client."""

    reason: ConfigRefusal
    text: str


class _Refusal(Exception):
    """Carries a ConfigRefused out of the checks."""

    def __init__(self, reason: ConfigRefusal, text: str) -> None:
        super().__init__(text)
        self.refused = ConfigRefused(reason, text)


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """resource_type: Kafka's number, known or not.  replaces: unset configs that are not named."""

    resource_type: int
    resource_name: str
    changes: Sequence[Change]
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class SetConfigs:
    """Answer: per resource None when it changed (or would), or ConfigRefused.

    seen, topic_ids: see rules.topics; with them a late proposal does not replace configs that were
    acknowledged since.
    """

    resources: Sequence[ResourceChange]
    validate_only: bool = False
    seen: int = 0
    topic_ids: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    reads: frozenset[str] = field(default=frozenset({TOPICS, GATEWAYS}), init=False)
    writes: frozenset[str] = field(default=frozenset({TOPICS}), init=False)

    def decide(self, view: View) -> Decided[list[ConfigRefused | None]]:
        """See the module's head."""
        answers: list[ConfigRefused | None] = []
        events: list[Event] = []
        for resource in self.resources:
            try:
                event = self._changed(view, resource)
            except _Refusal as refusal:
                answers.append(refusal.refused)
                continue
            answers.append(None)
            if event is not None:
                events.append(event)
        return Decided(() if self.validate_only else events, answers)

    def _changed(self, view: View, resource: ResourceChange) -> ConfigsSet | None:
        try:
            kind = ResourceType(resource.resource_type)
        except ValueError as error:
            text = f"Unknown resource type {resource.resource_type}"
            raise _Refusal(ConfigRefusal.INVALID_REQUEST, text) from error
        _check_form(resource)
        present = _present(view, kind, resource.resource_name, self.topic_ids)
        if view.state.name_changes.is_since(kind.value, resource.resource_name, self.seen):
            raise _Refusal(ConfigRefusal.CHANGED, "The resource changed again at each try.")
        configs = {} if resource.replaces else dict(present)
        for change in resource.changes:
            _apply(configs, _TABLES[kind], change)
        _check_configs(view, kind, resource, configs)
        if kind is ResourceType.BROKER:
            _refuse_secrets(configs, present)
        if configs == present:
            return None
        return ConfigsSet(kind.value, resource.resource_name, configs)


def form_refused(resource: ResourceChange) -> ConfigRefused | None:
    """Return the refusal of a malformed change, of whatever resource; None if its form is right."""
    try:
        _check_form(resource)
    except _Refusal as refusal:
        return refusal.refused
    return None


def _check_form(resource: ResourceChange) -> None:
    # Check the length before any other work on the values: the client chooses it.
    size_bytes = sum(len(each.name) + len(each.value or "") for each in resource.changes)
    if size_bytes > MAX_CONFIG_BYTES:
        raise _Refusal(ConfigRefusal.INVALID_CONFIG, _too_long(size_bytes))
    names = [change.name for change in resource.changes]
    if len(set(names)) < len(names):
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        change.name
        for change in resource.changes
        if change.value is None and change.operation is not Operation.DELETE
    ]
    if nulls:
        text = f"Null value not supported for : {', '.join(nulls)}"
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, text)


_TABLES: dict[ResourceType, Mapping[str, Definition]] = {
    ResourceType.TOPIC: TOPIC_CONFIGS,
    ResourceType.BROKER: KAFKA_BROKER_CONFIGS,
    ResourceType.BROKER_LOGGER: {},
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
    ResourceType.GROUP: GROUP_CONFIGS,
}

_EMPTY_NAME = {
    ResourceType.TOPIC: "Default topic resources are not allowed.",
    ResourceType.CLIENT_METRICS: "Subscription name can't be empty",
    ResourceType.GROUP: "Default group resources are not allowed.",
}


def _present(
    view: View, kind: ResourceType, name: str, topic_ids: Mapping[str, bytes]
) -> Mapping[str, str]:
    """Return the configs that are set on a resource; refuse one that cannot be changed."""
    if not name and kind in _EMPTY_NAME:
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, _EMPTY_NAME[kind])
    if kind is ResourceType.BROKER_LOGGER:
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, f"Unknown resource type {kind.value}")
    if kind is ResourceType.BROKER and name:
        _check_node_id(view, name)
    if kind is not ResourceType.TOPIC:
        return view.state.configs.get(kind.value, name)
    topic = found_topic(view, name, topic_ids)
    if topic is None:
        raise _Refusal(ConfigRefusal.UNKNOWN_TOPIC, f"The topic '{name}' does not exist.")
    if topic.link:
        raise _Refusal(ConfigRefusal.MIRRORED, mirrored_text(topic))
    return topic.configs


def _check_node_id(view: View, name: str) -> None:
    if not NODE_ID.fullmatch(name):
        text = f"Node id must be an integer, but it is: {name}"
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, text)
    if view.state.gateways.by_node_id(int(name)) is None:
        text = f"Unexpected broker id: no gateway with node id {name} is alive"
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, text)


def _apply(configs: dict[str, str], table: Mapping[str, Definition], change: Change) -> None:
    """Apply one change.  APPEND and SUBTRACT begin with the default if no value is set."""
    value = change.value or ""
    match change.operation:
        case Operation.SET:
            configs[change.name] = value
        case Operation.DELETE:
            configs.pop(change.name, None)
        case Operation.APPEND | Operation.SUBTRACT:
            definition = table.get(change.name)
            if definition is None or not definition.is_list:
                raise _Refusal(
                    ConfigRefusal.INVALID_CONFIG,
                    f"Can't {change.operation.name} to key {change.name} because its type is not"
                    " LIST.",
                )
            items = list(split_list(configs.get(change.name, definition.default or "")))
            configs[change.name] = ",".join(_combined(items, change.operation, value))


def _combined(items: list[str], operation: Operation, value: str) -> list[str]:
    others = dict.fromkeys(split_list(value))
    if operation is Operation.SUBTRACT:
        return [item for item in items if item not in others]
    present = set(items)
    return items + [item for item in others if item not in present]


def _check_configs(
    view: View, kind: ResourceType, resource: ResourceChange, configs: Mapping[str, str]
) -> None:
    try:
        _check_size(configs)
        match kind:
            case ResourceType.TOPIC:
                checked_topic_configs(configs)
            case ResourceType.GROUP:
                _check_group_configs(configs)
            case ResourceType.CLIENT_METRICS:
                _check_client_metrics_configs(configs)
            case _:
                _check_broker_configs(configs, is_default=not resource.resource_name)
    except InvalidConfig as error:
        of_broker = kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
        reason = ConfigRefusal.INVALID_REQUEST if of_broker else ConfigRefusal.INVALID_CONFIG
        raise _Refusal(reason, str(error)) from error


def checked_topic_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the configs to store with a topic.

    Raises:
      InvalidConfig: a name or value is wrong, or they contradict each other, or are too long.
    """
    texts = {name: text for name, text in configs.items() if text is not None}
    if len(texts) < len(configs):
        nulls = ",".join(name for name, text in configs.items() if text is None)
        raise InvalidConfig(f"Null value not supported for topic configs: {nulls}")
    _check_size(texts)
    values = validate_all(TOPIC_CONFIGS, texts, kind="topic")
    low, high = (
        values.get("min.compaction.lag.ms", 0),
        values.get("max.compaction.lag.ms", LONG_MAX),
    )
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms"
            f" ({high})"
        )
    return texts


def _refuse_secrets(configs: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Keep secrets out of the log.  A gateway reads them once, so a change would have no effect.

    Kafka accepts some secrets for a broker, without a listener's name, but they have no effect
    there either.  If an earlier release accepted a secret, it may stay until it is removed.
    """
    new = [
        name
        for name, text in configs.items()
        if BROKER_CONFIGS[name].is_sensitive and present.get(name) != text
    ]
    if new:
        text = f"Cannot update these configs dynamically: [{', '.join(new)}]"
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, text)


def _check_size(configs: Mapping[str, str]) -> None:
    size_bytes = sum(len(name) + len(text) for name, text in configs.items())
    if size_bytes > MAX_CONFIG_BYTES:
        raise InvalidConfig(_too_long(size_bytes))


def _too_long(size_bytes: int) -> str:
    return f"The configs take {size_bytes} bytes; {MAX_CONFIG_BYTES} are kept"


def _check_group_configs(configs: Mapping[str, str]) -> None:
    for name, value in validate_all(GROUP_CONFIGS, configs, kind="group").items():
        kind, _, rest = name.partition(".")
        rest = rest.removeprefix("num.")
        least, most = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
        if not isinstance(value, int):
            continue
        if least in BROKER_CONFIGS and value < int(BROKER_CONFIGS[least].default or 0):
            raise InvalidConfig(f"{name} must be greater than or equal to {least}")
        if most in BROKER_CONFIGS and value > int(BROKER_CONFIGS[most].default or 0):
            raise InvalidConfig(f"{name} must be less than or equal to {most}")


def _check_client_metrics_configs(configs: Mapping[str, str]) -> None:
    for name in configs:
        if name not in CLIENT_METRICS_CONFIGS:
            text = f"Unknown client metrics configuration: {name}"
            raise _Refusal(ConfigRefusal.INVALID_REQUEST, text)
    values = {name: parse(CLIENT_METRICS_CONFIGS[name], text) for name, text in configs.items()}
    interval = values.get("interval.ms")
    if isinstance(interval, int) and not 100 <= interval <= 3_600_000:
        text = (
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000"
            " (1 hour)"
        )
        raise _Refusal(ConfigRefusal.INVALID_REQUEST, text)
    ClientMatch(configs.get("match", ""))


def _check_broker_configs(configs: Mapping[str, str], *, is_default: bool) -> None:
    unknown = [name for name in configs if name not in BROKER_CONFIGS]
    if unknown:
        raise InvalidConfig(f"Unknown broker config name: {unknown[0]}")
    fixed = [name for name in configs if BROKER_CONFIGS[name].update is Update.READ_ONLY]
    if fixed:
        raise InvalidConfig(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    own = [name for name in configs if BROKER_CONFIGS[name].update is Update.PER_BROKER]
    if is_default and own:
        raise InvalidConfig(
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{', '.join(own)}]"
        )
    for name, text in configs.items():
        parse(BROKER_CONFIGS[name], text)
