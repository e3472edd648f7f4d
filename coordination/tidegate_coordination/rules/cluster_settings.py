"""The effective settings of topics, for gateways and the pipeline.

The first of these that is set holds: the topic's own config, the dynamic config of a gateway, the
dynamic default of all gateways, the static settings that gateways got at their start.  Any gateway
validates batches and runs the housekeeper, and the pipeline has no static settings at all.  So each
gateway writes its static settings to the log, and the most careful of their values holds; see
configs/cluster_wide.py and decision 23.

An unknown value counts as the most careful possible one: that of a gateway that has not written its
settings yet, and that of a cluster in which no gateway has.  Below metadata.version 3 no gateway
can write them: a gateway then uses its own settings, as in earlier releases, and the pipeline the
most careful values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import structlog

from ..configs.careful import CAREFUL_VALUES
from ..configs.cluster_wide import OF_TOPICS, TIMES, clusters_own, most_careful
from ..configs.definition import Definition
from ..configs.effective import (
    BrokerLayers,
    Effective,
    OnWrong,
    effective_broker_config,
    effective_topic_config,
    ignore,
)
from ..configs.topic_configs import TOPIC_CONFIGS
from ..configs.topic_settings import TopicSettings, compile_with
from ..events.metadata_versions import SETTINGS_TOLD
from ..state.cluster import ClusterState
from ..state.topics import Topic
from .configs import ResourceType
from .gateways import TellSettings

NO_GATEWAY: Final = -1
MAX_TOLD: Final = 10_000
_SHOWN_CHARACTERS: Final = 100

_log = structlog.get_logger("tidegate.settings")


class Own(NamedTuple):
    """A gateway's own static settings."""

    node_id: int
    static: Mapping[str, str]


class Disagreement(NamedTuple):
    """A setting that gateways were given differently.

    values: the gateways' values, by node id.  holds: the value that all gateways use.
    """

    name: str
    values: dict[int, str]
    holds: str


class _Default(NamedTuple):
    """A config's value for topics that do not set it, and the layers it comes from."""

    text: str
    layers: BrokerLayers


class ClusterSettings:
    """of(topic) costs a dictionary look-up while nothing changes.

    own: the asking gateway's own settings; None for the pipeline.
    """

    def __init__(self, state: ClusterState, own: Own | None = None) -> None:
        self._state = state
        self._own = own
        self._version = -1
        self._layers: dict[int, BrokerLayers] = {}
        self._defaults: dict[str, _Default] = {}
        self._cached: dict[bytes, tuple[int, TopicSettings]] = {}
        self._told: set[tuple[str, str, str]] = set()
        self._disagreements: list[Disagreement] = []

    def of(self, topic: Topic) -> TopicSettings:
        """Return a topic's settings as of now."""
        self._look()
        cached = self._cached.get(topic.topic_id)
        if cached is not None and cached[0] == topic.version:
            return cached[1]
        settings = compile_with(
            topic.configs,
            lambda definition: self._default(definition).text,
            partial(self._tell_wrong, f"topic {topic.name}"),
        )
        if len(self._cached) > len(self._state.topics.by_id) + 100:
            self._cached.clear()  # topics that were deleted
        self._cached[topic.topic_id] = (topic.version, settings)
        return settings

    def topic_config(self, configs: Mapping[str, str], name: str) -> Effective:
        """Return a config of a topic as it is shown, given what is set on the topic."""
        self._look()
        if TOPIC_CONFIGS[name].synonym not in OF_TOPICS:
            return effective_topic_config(configs, self._own_layers(), name)
        default = self._default(TOPIC_CONFIGS[name])
        return effective_topic_config(configs, default.layers, name, default.text)

    def broker_config(self, name: str) -> Effective:
        """Return a config of this gateway as DescribeConfigs shows it: the value that holds."""
        self._look()
        shown = effective_broker_config(self._own_layers(), name)
        if not any(each.name == name for each in self._disagreements):
            return shown
        holds = next(each.holds for each in self._disagreements if each.name == name)
        return shown._replace(value=holds)

    def default_of(self, name: str) -> str:
        """Return the default of one of the topic configs that change what Tidegate does."""
        self._look()
        return self._default(TOPIC_CONFIGS[name]).text

    def time(self, name: str) -> int:
        """Return one of cluster_wide.TIMES, in its unit."""
        self._look()
        return int(self._careful(TIMES[name], ignore).text)

    def to_tell(self, incarnation: int) -> TellSettings | None:
        """Return the settings that this gateway must write to the log now; None if none."""
        own, state = self._own, self._state
        if own is None or state.metadata_version < SETTINGS_TOLD:
            return None
        settings = clusters_own(own.static)
        if not state.static_settings.is_due(own.node_id, settings, state.settled_time_ms):
            return None
        return TellSettings(incarnation, settings)

    @property
    def disagreements(self) -> list[Disagreement]:
        """Return the settings that gateways were given differently, by name."""
        self._look()
        return self._disagreements

    @property
    def unknown(self) -> list[int]:
        """Return the gateways whose settings are unknown; NO_GATEWAY if none ever wrote any."""
        self._look()
        return [node_id for node_id, each in self._layers.items() if not each.is_whole]

    def _look(self) -> None:
        """Read the settings of gateways again, if they may have changed."""
        state = self._state
        # Each of these only rises, so their sum changes if one of them does.
        version = (
            state.configs.version
            + state.gateways.version
            + state.static_settings.version
            + state.metadata_version
        )
        if version == self._version:
            return
        self._version = version
        layers = dict(self._layers_now())
        if layers == self._layers:
            return
        self._layers = layers
        self._defaults.clear()
        self._cached.clear()
        self._find_disagreements()

    def _layers_now(self) -> Iterator[tuple[int, BrokerLayers]]:
        """Yield the settings of each gateway by node id, this gateway's own first."""
        own, state = self._own, self._state
        if own is not None:
            yield own.node_id, self._layers_of(own.node_id, own.static)
        if own is not None and state.metadata_version < SETTINGS_TOLD:
            return
        told = state.static_settings.by_node_id
        live = [each.node_id for each in state.gateways.brokers()]
        others = sorted({*told, *live} - ({own.node_id} if own is not None else set[int]()))
        for node_id in others:
            static = told[node_id].settings if node_id in told else None
            yield node_id, self._layers_of(node_id, static)
        if own is None and not others:
            yield NO_GATEWAY, self._layers_of(NO_GATEWAY, None)

    def _layers_of(self, node_id: int, static: Mapping[str, str] | None) -> BrokerLayers:
        kind, configs = ResourceType.BROKER.value, self._state.configs
        dynamic, of_all = configs.get(kind, str(node_id)), configs.get(kind, "")
        return BrokerLayers(dynamic, of_all, static or {}, is_whole=static is not None)

    def _own_layers(self) -> BrokerLayers:
        return next(iter(self._layers.values()))

    def _default(self, definition: Definition) -> _Default:
        default = self._defaults.get(definition.name)
        if default is None:
            default = self._careful(definition, partial(self._tell_wrong, "gateways"))
            self._defaults[definition.name] = default
        return default

    def _careful(self, definition: Definition, on_wrong: OnWrong) -> _Default:
        """Return the most careful value of all gateways, with this gateway's layers if possible."""
        said = [_Default(text, each) for text, each in self._said(definition, on_wrong)]
        holds = most_careful(definition, [each.text for each in said])
        same = (each for each in said if most_careful(definition, [each.text]) == holds)
        return _Default(holds, next(same, said[0]).layers)

    def _said(
        self, definition: Definition, on_wrong: OnWrong
    ) -> Iterator[tuple[str, BrokerLayers]]:
        """Yield the value of each gateway, at least one.

        If the config removes no records, a gateway that has not written its own does not count.
        """
        layers = list(self._layers.values())
        if definition.name not in CAREFUL_VALUES:
            layers = [each for each in layers if each.is_whole] or layers[:1]
        for each in layers:
            text = each.default_of(definition, on_wrong)
            assert text is not None, definition.name
            yield text, each

    def _find_disagreements(self) -> None:
        self._disagreements = list(self._disagreeing())
        for each in self._disagreements:
            shown = {str(node_id): value for node_id, value in each.values.items()}
            if self._is_new("gateways", each.name, str(shown)):
                _log.warning(
                    "gateways were given different settings; the careful value holds for all",
                    setting=each.name,
                    gateways=shown,
                    holds=each.holds,
                )

    def _disagreeing(self) -> Iterator[Disagreement]:
        whole = {number: each for number, each in self._layers.items() if each.is_whole}
        if len(whole) < 2:
            return
        for name, definition in sorted(_SETTINGS.items()):
            values = {
                number: most_careful(definition, [text])
                for number, each in whole.items()
                if (text := each.default_of(definition)) is not None
            }
            if len(set(values.values())) > 1:
                yield Disagreement(name, values, self._careful(definition, ignore).text)

    def _tell_wrong(self, where: str, name: str, text: str) -> None:
        """Warn of a stored wrong value; of a gateway's value only once for all topics."""
        if self._is_new(where, name, text):
            _log.warning(
                "a stored config cannot be used, and another value holds: set it again",
                config=name,
                value=text[:_SHOWN_CHARACTERS],
                where=where,
            )

    def _is_new(self, *what: str) -> bool:
        where, name, text = what
        if (where, name, text) in self._told or len(self._told) == MAX_TOLD:
            return False
        self._told.add((where, name, text))
        return True


_SETTINGS: Final = OF_TOPICS | TIMES
"""The settings that gateways can disagree on -> the checks of their values."""
