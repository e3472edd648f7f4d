"""The effective value of a config, and its source.

Kafka's order is: the resource's own value, then per broker config name: this node's dynamic value,
the dynamic value for all brokers, the static value, the default.  Some broker configs stand in for
others (log.retention.hours for log.retention.ms).  Kafka lists those only below a value of the
first name or its default, so a synonym list can be empty (ConfigHelper in Kafka).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from .broker_configs import BROKER_CONFIGS
from .careful import CAREFUL_VALUES
from .definition import Definition, text_of
from .group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from .topic_configs import TOPIC_CONFIGS
from .validation import InvalidConfig, parse

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS

STAND_INS: dict[str, tuple[tuple[str, int], ...]] = {
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
    "log.retention.ms": (("log.retention.minutes", _MINUTE_MS), ("log.retention.hours", _HOUR_MS)),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", _HOUR_MS),),
    "log.roll.ms": (("log.roll.hours", _HOUR_MS),),
}
"""Config -> the configs that replace it if it is not set, each with its unit in ms."""

OnWrong = Callable[[str, str], None]
"""(config name, text): a value that is stored, and that no rule would take."""


def ignore(_name: str, _text: str) -> None:
    """See OnWrong."""


class Source(IntEnum):
    """Numbers as in DescribeConfigs answers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class Synonym(NamedTuple):
    """One place where a value was found.  value: None where it must not be shown."""

    name: str
    value: str | None
    source: Source


class Effective(NamedTuple):
    """A config as DescribeConfigs shows it."""

    definition: Definition
    value: str | None
    source: Source
    synonyms: tuple[Synonym, ...]


def _no_texts() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """The configs of one gateway: its dynamic ones, those of all gateways, and its static ones.

    is_whole: whether the static ones are known.  If they are unknown and would decide, a config has
    its careful value.
    """

    dynamic: Mapping[str, str] = field(default_factory=_no_texts)
    dynamic_default: Mapping[str, str] = field(default_factory=_no_texts)
    static: Mapping[str, str] = field(default_factory=_no_texts)
    is_whole: bool = True

    def text(self, name: str) -> str | None:
        """Return the value of a broker config; None where it has none."""
        for layer in (self.dynamic, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return BROKER_CONFIGS[name].default

    def synonyms(self, name: str) -> tuple[Synonym, ...]:
        """Return all values of a broker config and its stand-ins, the one that holds first."""
        names = (name, *(other for other, _ in STAND_INS.get(name, ())))
        found = [
            Synonym(each, _shown(BROKER_CONFIGS[each], layer[each]), source)
            for layer, source in self._layers()
            for each in names
            if each in layer
        ]
        found += [
            Synonym(each, None if definition.is_sensitive else definition.default, Source.DEFAULT)
            for each in names
            if (definition := BROKER_CONFIGS[each]).default is not None
        ]
        first = next((place for place, each in enumerate(found) if each.name == name), len(found))
        return tuple(found[first:])

    def _layers(self) -> tuple[tuple[Mapping[str, str], Source], ...]:
        return (
            (self.dynamic, Source.DYNAMIC_BROKER),
            (self.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
            (self.static, Source.STATIC_BROKER),
        )

    def default_of(self, definition: Definition, on_wrong: OnWrong = ignore) -> str | None:
        """Return the value of a topic or group config that the resource does not set.

        on_wrong: called for each value that does not pass the checks.  Such a value is skipped, or
        replaced by the careful value of the config.
        """
        for name, text, unit_ms in self._candidates(definition):
            usable = _usable(definition, name, text, unit_ms)
            if usable is not None:
                return usable
            on_wrong(name, text)
            careful = CAREFUL_VALUES.get(definition.name)
            if careful is not None:
                return careful
        if not self.is_whole:
            return CAREFUL_VALUES.get(definition.name, definition.default)
        return definition.default

    def _candidates(self, definition: Definition) -> Iterator[tuple[str, str, int]]:
        """Yield broker configs that give a default, with value and unit, in order of precedence."""
        name = definition.synonym
        if name is None:
            return
        for other, unit_ms in ((name, 1), *STAND_INS.get(name, ())):
            layers = (self.dynamic, self.dynamic_default, self.static)
            found = [each[other] for each in layers if other in each]
            default = BROKER_CONFIGS[other].default
            yield from ((other, text, unit_ms) for text in found)
            if default is not None and self.is_whole:
                yield other, default, unit_ms


def topic_config_text(
    configs: Mapping[str, str], layers: BrokerLayers, name: str, on_wrong: OnWrong = ignore
) -> str | None:
    """Return the value of a topic's config, given the topic's own configs; it passes all checks.

    on_wrong: see BrokerLayers.default_of; also called for the topic's own configs.
    """
    own = own_config_text(configs, name, on_wrong)
    return layers.default_of(TOPIC_CONFIGS[name], on_wrong) if own is None else own


def own_config_text(configs: Mapping[str, str], name: str, on_wrong: OnWrong) -> str | None:
    """Return the value that a topic itself sets, None if it sets none; see topic_config_text."""
    if name not in configs:
        return None
    try:
        parse(TOPIC_CONFIGS[name], configs[name])
    except InvalidConfig:
        on_wrong(name, configs[name])
        return CAREFUL_VALUES.get(name)
    return configs[name]


def effective_topic_config(
    configs: Mapping[str, str], layers: BrokerLayers, name: str, default: str | None = None
) -> Effective:
    """Return a topic's config with its source, given the topic's own configs.

    default: the value if the topic sets none; None: take it from the layers.
    """
    definition = TOPIC_CONFIGS[name]
    synonyms = layers.synonyms(definition.synonym) if definition.synonym else ()
    if name in configs:
        own = Synonym(name, _shown(definition, configs[name]), Source.DYNAMIC_TOPIC)
        synonyms = (own, *synonyms)
        default = None
    value = topic_config_text(configs, layers, name) if default is None else default
    return _effective(definition, value, synonyms)


def effective_group_config(
    configs: Mapping[str, str], layers: BrokerLayers, name: str
) -> Effective:
    """Return a config of a group, given what is set on the group."""
    definition = GROUP_CONFIGS[name]
    value = configs[name] if name in configs else layers.default_of(definition)
    synonyms = layers.synonyms(definition.synonym) if definition.synonym else ()
    if name in configs:
        own = Synonym(name, _shown(definition, configs[name]), Source.DYNAMIC_GROUP)
        synonyms = (own, *synonyms)
    elif not synonyms:
        synonyms = (Synonym(name, value, Source.DEFAULT),)
    return _effective(definition, value, synonyms)


def effective_client_metrics_config(configs: Mapping[str, str], name: str) -> Effective:
    """Return a config of a client metrics subscription."""
    definition = CLIENT_METRICS_CONFIGS[name]
    if name not in configs:
        return _effective(definition, definition.default, ())
    value = _shown(definition, configs[name])
    return _effective(definition, value, (Synonym(name, value, Source.DYNAMIC_CLIENT_METRICS),))


def effective_broker_config(layers: BrokerLayers, name: str) -> Effective:
    """Return a config of a gateway."""
    return _effective(BROKER_CONFIGS[name], layers.text(name), layers.synonyms(name))


def _usable(definition: Definition, name: str, text: str, unit_ms: int) -> str | None:
    """Return a broker config's value as a topic or group config; None if it is invalid there.

    Kafka reads every negative retention of a broker as -1 (KafkaConfig).
    """
    try:
        value = parse(BROKER_CONFIGS[name], text)
        if isinstance(value, int) and (unit_ms > 1 or definition.name == "retention.ms"):
            text = str(max(value * unit_ms, -1))
        parse(definition, text)
    except InvalidConfig:
        return None
    return text


def _shown(definition: Definition, text: str) -> str | None:
    """Return a value as Kafka shows it; return a stored invalid value unchanged."""
    if definition.is_sensitive:
        return None
    try:
        return text_of(parse(definition, text))
    except InvalidConfig:
        return text


def _effective(
    definition: Definition, value: str | None, synonyms: tuple[Synonym, ...]
) -> Effective:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    if value is None or definition.is_sensitive:
        return Effective(definition, None, source, synonyms)
    shown = value if value == definition.default else _shown(definition, value)
    return Effective(definition, shown, source, synonyms)
