"""Text -> value, checked; the texts of refusals are Kafka's.

Kafka trims values before it reads them, takes no digits but ASCII ones with an optional sign, and
reads "" as the empty list.  A value is stored as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .definition import INT_MAX, LONG_MAX, ConfigType, Definition, Value


class InvalidConfig(Exception):
    """A config that must not be stored.  Answer its text, which is for a person."""


_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LIMITS = {ConfigType.SHORT: 2**15 - 1, ConfigType.INT: INT_MAX, ConfigType.LONG: LONG_MAX}
_BOOLEANS = {"true": True, "false": False}


def split_list(text: str) -> tuple[str, ...]:
    """Read a list config.  Not with a regular expression, which is slow on a long run of spaces."""
    stripped = text.strip()
    return tuple(item.strip() for item in stripped.split(",")) if stripped else ()


def parse(definition: Definition, text: str) -> Value:
    """Return the value of a text that passes all checks.

    Raises:
      InvalidConfig: it does not.
    """
    value = _parse_type(definition, text.strip())
    if isinstance(value, tuple) and "" in value:
        raise InvalidConfig(f"Configuration '{definition.name}' values must not be empty.")
    wrong = definition.check(definition.name, value) if definition.check else None
    if wrong is not None:
        raise _invalid(definition, _shown(definition, value), wrong)
    return value


def _parse_type(definition: Definition, text: str) -> Value:
    match definition.type:
        case ConfigType.BOOLEAN:
            if text.lower() not in _BOOLEANS:
                raise _invalid(definition, text, "Expected value to be either true or false")
            return _BOOLEANS[text.lower()]
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            return _parse_integer(definition, text)
        case ConfigType.DOUBLE:
            if not _DOUBLE.fullmatch(text):
                raise _invalid(definition, text, "Not a number of type DOUBLE")
            return float(text)
        case ConfigType.LIST:
            return split_list(text)
        case _:
            return text


def _parse_integer(definition: Definition, text: str) -> int:
    limit = _LIMITS[definition.type]
    if _INTEGER.fullmatch(text) and len(text) <= 40 and -limit - 1 <= int(text) <= limit:
        return int(text)
    raise _invalid(definition, text, f"Not a number of type {definition.type.name}")


def _shown(definition: Definition, value: Value) -> str:
    """Show a value as Kafka does: a list check names the item, the throttle check the list."""
    if not isinstance(value, tuple):
        return str(value)
    if definition.name.endswith(".throttled.replicas"):
        return f"[{', '.join(value)}]"
    check = definition.check
    wrong = (item for item in value if check is not None and check(definition.name, (item,)))
    return next(wrong, ",".join(value))


def _invalid(definition: Definition, shown: str, wrong: str) -> InvalidConfig:
    value = "[hidden]" if definition.is_sensitive else shown[:200]
    return InvalidConfig(f"Invalid value {value} for configuration {definition.name}: {wrong}")


def validate_all(
    table: Mapping[str, Definition], configs: Mapping[str, str], *, kind: str
) -> dict[str, Value]:
    """Return the parsed values of all configs set on a resource; unknown names are refused first.

    kind: "topic" or "group", for the text.

    Raises:
      InvalidConfig: the first that is wrong.
    """
    for name in configs:
        if name not in table:
            raise InvalidConfig(f"Unknown {kind} config name: {name}")
    return {name: parse(table[name], text) for name, text in configs.items()}
