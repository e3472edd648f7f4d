"""What is set for this gateway, over the table of all settings there are.

A value is looked up in this order: dynamic config of this node, dynamic config of all, what was set
at start, the default.  Kafka says which names can change while it runs; the rules let no other be
set dynamically.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.definition import Value
from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.own_settings import REMOVED_SETTINGS
from tidegate_coordination.configs.validation import InvalidConfig, parse
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.state.configs import ConfigTable
from tidegate_runtime.settings_texts import SettingsError


def _no_texts() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """static: name -> text, only what was set.  dynamic, dynamic_default: see `current`.

    Raises:
      SettingsError: an unknown name, or a value that is not possible.
    """

    static: Mapping[str, str] = field(default_factory=_no_texts)
    dynamic: Mapping[str, str] = field(default_factory=_no_texts)
    dynamic_default: Mapping[str, str] = field(default_factory=_no_texts)

    def __post_init__(self) -> None:
        """Check what was set."""
        for name, text in self.static.items():
            _check(name, text)

    def is_set(self, name: str) -> bool:
        """Tell whether the name has a value that is not the default."""
        return any(name in each for each in (self.static, self.dynamic, self.dynamic_default))

    def int(self, name: str) -> int:
        """Return a whole number."""
        value = self._value(name)
        assert isinstance(value, int)
        assert not isinstance(value, bool)
        return value

    def float(self, name: str) -> float:
        """Return a number."""
        value = self._value(name)
        assert isinstance(value, int | float)
        return float(value)

    def bool(self, name: str) -> bool:
        """Return a yes or no."""
        value = self._value(name)
        assert isinstance(value, bool)
        return value

    def text(self, name: str) -> str:
        """Return the text as it was set; "" where there is none."""
        text = self._layers().text(name)
        return "" if text is None else text.strip()

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a list; none where it is not set."""
        if self._layers().text(name) is None:
            return ()
        value = self._value(name)
        assert isinstance(value, tuple)
        return value

    @property
    def meaningless(self) -> list[str]:
        """Return the names set at start that Kafka knows and that change nothing here."""
        known = self.static.keys() - REMOVED_SETTINGS
        return sorted(name for name in known if not BROKER_CONFIGS[name].meaningful)

    @property
    def removed(self) -> list[str]:
        """Return the names set at start that only earlier versions had."""
        return sorted(self.static.keys() & REMOVED_SETTINGS)

    def layers(self, configs: ConfigTable) -> BrokerLayers:
        """Return all layers as of the state, for topic configs and DescribeConfigs."""
        return self.current(configs)._layers()

    def current(self, configs: ConfigTable) -> BrokerSettings:
        """Return the settings with the dynamic configs of the state in force."""
        kind = ResourceType.BROKER.value
        own = configs.get(kind, str(self.int("node.id")))
        return replace(self, dynamic=own, dynamic_default=configs.get(kind, ""))

    def _layers(self) -> BrokerLayers:
        return BrokerLayers(self.dynamic, self.dynamic_default, self.static)

    def _value(self, name: str) -> Value:
        """Return the first value that passes the checks: the rules of old may have taken others."""
        definition = BROKER_CONFIGS[name]
        for layer in (self.dynamic, self.dynamic_default):
            with suppress(InvalidConfig, KeyError):
                return parse(definition, layer[name])
        text = self.static.get(name, definition.default)
        if text is None:
            raise SettingsError(f"{name} is not set and has no default")
        return parse(definition, text)


def _check(name: str, text: str) -> None:
    if name in REMOVED_SETTINGS:
        return
    if name not in BROKER_CONFIGS:
        near = get_close_matches(name, BROKER_CONFIGS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise SettingsError(f"unknown setting {name}{hint}")
    try:
        parse(BROKER_CONFIGS[name], text)
    except InvalidConfig as error:
        raise SettingsError(str(error)) from error
