"""The definition of one config, and the kinds of checks of its value.

The texts are Kafka's word for word: clients and their tests match them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...]

Check = Callable[[str, Value], str | None]
"""(config name, parsed value) -> what is wrong with it, or None."""


class ConfigType(IntEnum):
    """Numbers as in DescribeConfigs answers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Whether a broker config can change while the gateway runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True)
class Definition:
    """One config.

    default: the default value as text; None if there is none.  synonym: the broker config that a
    topic or group config falls back to.  meaningful: it changes what Tidegate does.  listed:
    DescribeConfigs names it even where it is not set.
    """

    name: str
    type: ConfigType
    default: str | None
    check: Check | None = None
    documentation: str = ""
    synonym: str | None = None
    update: Update = Update.CLUSTER_WIDE
    meaningful: bool = True
    listed: bool = True

    @property
    def is_list(self) -> bool:
        """Return whether APPEND and SUBTRACT make sense."""
        return self.type is ConfigType.LIST

    @property
    def is_sensitive(self) -> bool:
        """Return whether its value must never be shown (CVE-2019-12399)."""
        return self.type is ConfigType.PASSWORD


def between(low: float | None, high: float | None) -> Check:
    """Numbers from low to high, both allowed; None for no bound."""

    def check(_: str, value: Value) -> str | None:
        assert isinstance(value, int | float)
        if low is not None and value < low:
            return f"Value must be at least {low}"
        if high is not None and value > high:
            return f"Value must be no more than {high}"
        return None

    return check


def at_least(low: float) -> Check:
    """Numbers from low on."""
    return between(low, None)


def between_or(low: int, high: int, extra: int) -> Check:
    """Numbers from low to high, or one other number."""

    def check(_: str, value: Value) -> str | None:
        if value == extra or (isinstance(value, int) and low <= value <= high):
            return None
        return f"Value must be between {low} and {high} or equal to {extra}"

    return check


def one_of(*choices: str) -> Check:
    """A text, or every item of a list, out of a set."""

    def check(_: str, value: Value) -> str | None:
        items = value if isinstance(value, tuple) else (value,)
        if all(item in choices for item in items):
            return None
        return f"String must be one of: {', '.join(choices)}"

    return check


def one_of_any_case(*choices: str) -> Check:
    """A text out of a set, upper or lower case."""

    def check(_: str, value: Value) -> str | None:
        if str(value).upper() in choices:
            return None
        return f"String must be one of (case insensitive): {', '.join(choices)}"

    return check


def not_empty(_: str, value: Value) -> str | None:
    """Any text but the empty one."""
    return None if value else "String must be non-empty"


_THROTTLED = re.compile(r"\d+:\d+")


def throttled_replicas(name: str, value: Value) -> str | None:
    """Kafka's notation for throttled replicas."""
    assert isinstance(value, tuple)
    if value in ((), ("*",)) or all(_THROTTLED.fullmatch(item) for item in value):
        return None
    return (
        f"{name} must be the literal '*' or a list of replicas in the following format:"
        " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


_DURATION = re.compile(
    r"by_duration:P(?=[\dT])(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE
)


def share_offset_reset(name: str, value: Value) -> str | None:
    """Where a share group begins."""
    if value in ("earliest", "latest") or _DURATION.fullmatch(str(value)):
        return None
    return (
        f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest',"
        " 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def text_of(value: Value) -> str:
    """Return a parsed value as Kafka shows it."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
