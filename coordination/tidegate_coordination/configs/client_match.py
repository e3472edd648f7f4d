"""Which clients a client metrics subscription is for: its config `match` (KIP-714).  Pure.

The config is a list of NAME=PATTERN; a client must match all of them, and an empty list matches all
clients.  Differs from Kafka: patterns are those of RE2, which has neither back references nor
lookarounds, so that no pattern and no client takes exponential time; too large patterns are
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..name_patterns import BadPattern, NamePattern
from .validation import InvalidConfig, split_list

ATTRIBUTES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class ClientMatch:
    """The parsed config.

    Raises:
      InvalidConfig: an item has no such name, or is no pattern that can be matched in bounded time.
    """

    def __init__(self, text: str) -> None:
        # If an attribute has several patterns, the last one counts, as in Kafka.
        self._patterns = dict(map(_parsed, split_list(text)))

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Return whether a client with all ATTRIBUTES matches."""
        return all(each.matches(attributes[name]) for name, each in self._patterns.items())


def _parsed(item: str) -> tuple[str, NamePattern]:
    # Java's split() forgets empty strings at the end.
    parts = item.rstrip("=").split("=")
    name = parts[0].strip()
    if len(parts) != 2 or name not in ATTRIBUTES:
        raise InvalidConfig(f"Illegal client matching pattern: {item[:200]}")
    try:
        # The empty NamePattern matches all names; Java's matches the empty one only.
        return name, NamePattern(parts[1].strip() or "()")
    except BadPattern as error:
        raise InvalidConfig(f"Illegal client matching pattern: {item[:200]}") from error
