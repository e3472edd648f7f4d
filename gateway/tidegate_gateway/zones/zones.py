"""In which zone a client is, from what is known of it: plain code.

Said by itself first, then guessed, in this order (docs/architecture.md, "Zones"); the first zone
that is known counts, or else the first one:
1. a key in client.id, as any vendor's clients have it: `app,zone=us-east-1a`,
   `automq_type=producer&automq_az=us-east-1a&app`, `ws_az=use1-az4`;
2. client.rack, which only Fetch carries (see client_racks.py);
3. the listener it came in by (zone.listener.map);
4. its source address (zone.cidr.map).

Tools append to a client.id what tells their clients apart (`-0`, `-StreamThread-1-consumer`), so a
zone that nobody knows is tried again without its last parts.  Names that mean the same place are
one zone, called by its id (zone.id.map).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import unquote

KEYS: Final = frozenset(
    {
        "tidegate_az",
        "diskless_az",
        "diskless_rack_id",
        "inkless_az",
        "ws_az",
        "warpstream_az",
        "automq_az",
        "zone",
    }
)
# A client id may have 32 KiB; what says a zone stands in its first words.
MAX_LOOKED_AT: Final = 1024
MAX_ZONE: Final = 255
"""Characters of a zone that a client says; what it says is kept and shown."""
_SEPARATORS = re.compile(r"[, |&;]")


def said_in_client_id(client_id: str) -> str:
    """Return the zone that a client id says, with whatever was appended to it; "" for none.

    Keys count at the start of a word only: `timezone=` says nothing.
    """
    for word in _words(client_id[:MAX_LOOKED_AT]):
        key, _, said = word.partition("=")
        if key in KEYS and said:
            return said[:MAX_ZONE]
    return ""


def _words(client_id: str) -> Iterator[str]:
    """Return the words, decoded: AutoMQ's values are URL-encoded.

    Some tools encode the equals signs, too, and then also what separates words.
    """
    for word in _SEPARATORS.split(client_id):
        decoded = unquote(word)
        if "=" in word:
            yield decoded
        else:
            yield from _SEPARATORS.split(decoded)


def without_suffixes(said: str, known: Collection[str]) -> str:
    """Return the longest beginning of `said`, cut at dashes, that is a known zone; else all."""
    return next((each for each in _beginnings(said) if each in known), said)


def _beginnings(text: str) -> Iterator[str]:
    while text:
        yield text
        text = text.rpartition("-")[0]
