"""The settings of this gateway, checked against the table of all settings.

Passwords, tokens, keys, and addresses that may hold one are kept apart, as Secrets.  `static` has
only their names, so code that reads or shows `static` cannot show a secret.

A value is looked up in this order: dynamic config of this node, dynamic config of all nodes, static
setting (given at the start), default.  As in Kafka, only some names can change while the gateway
runs; the rules refuse dynamic configs of other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.definition import Value
from tidegate_coordination.configs.effective import BrokerLayers
from tidegate_coordination.configs.listener_configs import (
    LISTENER_PREFIX,
    listener_config,
    static_definition,
)
from tidegate_coordination.configs.own_settings import REMOVED_SETTINGS
from tidegate_coordination.configs.validation import InvalidConfig, parse
from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.state.configs import ConfigTable
from tidegate_runtime.secret import HIDDEN, Secret
from tidegate_runtime.settings_texts import SettingsError


def _no_texts() -> dict[str, str]:
    return {}


def _no_secrets() -> dict[str, Secret]:
    return {}


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings by name.

    static: name -> text of the settings given at the start; HIDDEN for those in `secrets`. dynamic,
    dynamic_default: see `current`.  No client may set a secret there.  If an earlier release
    accepted one, it has no effect, and is not shown. secrets: by name; taken out of `static`.

    Raises:
      SettingsError: an unknown name, or an invalid value.
    """

    static: Mapping[str, str] = field(default_factory=_no_texts, repr=False)
    dynamic: Mapping[str, str] = field(default_factory=_no_texts, repr=False)
    dynamic_default: Mapping[str, str] = field(default_factory=_no_texts, repr=False)
    secrets: Mapping[str, Secret] = field(default_factory=_no_secrets, repr=False)

    def __post_init__(self) -> None:
        """Check names and values of the static settings, and take the secrets out."""
        for name, text in self.static.items():
            _check(name, text)
        secrets = dict(self.secrets)
        secrets |= {
            name: Secret(text)
            for name, text in self.static.items()
            if _is_secret(name) and not (text == HIDDEN and name in secrets)
        }
        shown = {name: HIDDEN if name in secrets else text for name, text in self.static.items()}
        object.__setattr__(self, "static", shown)
        object.__setattr__(self, "secrets", secrets)

    def is_set(self, name: str) -> bool:
        """Return whether a static setting or a dynamic config sets a value."""
        return any(name in each for each in (self.static, self.dynamic, self.dynamic_default))

    def int(self, name: str) -> int:
        """Return the value of an integer setting."""
        value = self._value(name)
        assert isinstance(value, int)
        assert not isinstance(value, bool)
        return value

    def float(self, name: str) -> float:
        """Return the value of a setting that is a number."""
        value = self._value(name)
        assert isinstance(value, int | float)
        return float(value)

    def bool(self, name: str) -> bool:
        """Return the value of a boolean setting."""
        value = self._value(name)
        assert isinstance(value, bool)
        return value

    def text(self, name: str) -> str:
        """Return the text as it was set, or the default; "" if there is neither.

        Not for secrets.
        """
        assert not BROKER_CONFIGS[name].is_sensitive, f"{name} is a secret"
        text = self._layers().text(name)
        return "" if text is None else text.strip()

    def secret(self, name: str) -> Secret:
        """Return a secret as it was set, or the default; an empty secret if there is neither."""
        definition = BROKER_CONFIGS[name]
        assert definition.is_sensitive, f"{name} is no secret"
        found = self.secrets.get(name)
        return Secret((definition.default or "") if found is None else found.reveal().strip())

    def items(self, name: str) -> tuple[str, ...]:
        """Return the items of a list; empty if the list is not set and has no default."""
        if self._layers().text(name) is None:
            return ()
        value = self._value(name)
        assert isinstance(value, tuple)
        return value

    def listener_text(self, listener: str, name: str, mechanism: str = "") -> str:
        """Return the value for a mechanism of a listener, else for the listener, else for all.

        The value is "" if none of them is set.  Do not call it for secrets.
        """
        assert not BROKER_CONFIGS[name].is_sensitive, f"{name} is a secret"
        names = [listener_config(listener, name, mechanism)] if mechanism else []
        names.append(listener_config(listener, name))
        own = next((self.static[each] for each in names if each in self.static), None)
        return self.text(name) if own is None else own.strip()

    def listener_secret(self, listener: str, name: str, mechanism: str = "") -> Secret:
        """Return a secret, looked up in the same order as by listener_text()."""
        names = [listener_config(listener, name, mechanism)] if mechanism else []
        names.append(listener_config(listener, name))
        own = next((self.secrets[each] for each in names if each in self.secrets), None)
        return self.secret(name) if own is None else Secret(own.reveal().strip())

    def with_secrets(self) -> dict[str, str]:
        """Return all static settings, to be given to another process."""
        return {**self.static, **{name: each.reveal() for name, each in self.secrets.items()}}

    @property
    def meaningless(self) -> list[str]:
        """The names of static settings that Kafka knows, and that have no effect here."""
        known = self.static.keys() - REMOVED_SETTINGS
        definitions = ((name, static_definition(name)) for name in known)
        return sorted(name for name, each in definitions if each is None or not each.meaningful)

    @property
    def removed(self) -> list[str]:
        """The names of static settings that only earlier releases had."""
        return sorted(self.static.keys() & REMOVED_SETTINGS)

    def layers(self, configs: ConfigTable) -> BrokerLayers:
        """Return all layers, with the state's dynamic configs.

        Topic configs and DescribeConfigs use them.
        """
        return self.current(configs)._layers()

    def current(self, configs: ConfigTable) -> BrokerSettings:
        """Return the settings with the state's dynamic configs in effect."""
        kind = ResourceType.BROKER.value
        own = configs.get(kind, str(self.int("node.id")))
        return replace(self, dynamic=own, dynamic_default=configs.get(kind, ""))

    def _layers(self) -> BrokerLayers:
        return BrokerLayers(self.dynamic, self.dynamic_default, self.static)

    def _value(self, name: str) -> Value:
        """Return the first valid value, since earlier releases may have accepted invalid ones."""
        definition = BROKER_CONFIGS[name]
        for layer in (self.dynamic, self.dynamic_default):
            with suppress(InvalidConfig, KeyError):
                return parse(definition, layer[name])
        text = self.static.get(name, definition.default)
        if text is None:
            raise SettingsError(f"{name} is not set and has no default")
        return parse(definition, text)


def _is_secret(name: str) -> bool:
    definition = static_definition(name)
    return definition is not None and definition.is_sensitive


def _check(name: str, text: str) -> None:
    if name in REMOVED_SETTINGS:
        return
    definition = static_definition(name)
    if definition is None:
        near = get_close_matches(name, BROKER_CONFIGS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        if name.startswith(LISTENER_PREFIX):
            hint = "; listener and mechanism are written in lower case there"
        raise SettingsError(f"unknown setting {name}{hint}")
    try:
        parse(definition, text)
    except InvalidConfig as error:
        raise SettingsError(str(error)) from error
