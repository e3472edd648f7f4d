"""Reads the zone of a client from its client id.  Plain code.

The zone of a client has four sources (docs/architecture.md, "Zones").  The first source with a
known zone counts; if no source has one, the first source with any zone:
1. a key in client.id, as clients of several vendors set it: `app,zone=us-east-1a`,
   `automq_type=producer&automq_az=us-east-1a&app`, `ws_az=use1-az4`;
2. client.rack, which only Fetch carries (see client_racks.py);
3. the listener of the connection (zone.listener.map);
4. the source address of the connection (zone.cidr.map).

Tools append suffixes to a client.id to distinguish their clients, such as `-0` and
`-StreamThread-1-consumer`.  So an unknown zone is tried again without its last parts. zone.id.map
makes several names of the same place one zone, which has one id.
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
# A client id may have 32 KiB; the zone's key is expected among its first words.
MAX_LOOKED_AT: Final = 1024
MAX_ZONE: Final = 255
"""Characters of a zone that a client names: the gateway keeps and shows the name."""
_SEPARATORS = re.compile(r"[, |&;]")


def said_in_client_id(client_id: str) -> str:
    """Return the zone that a client id names, including any appended suffix; "" for none.

    A key counts only at the start of a word: `timezone=` names no zone.
    """
    for word in _words(client_id[:MAX_LOOKED_AT]):
        key, _, said = word.partition("=")
        if key in KEYS and said:
            return said[:MAX_ZONE]
    return ""


def _words(client_id: str) -> Iterator[str]:
    """Yield the words, decoded: AutoMQ's values are URL-encoded.

    Some tools also encode the equals signs, and then the separators between words, too.
    """
    for word in _SEPARATORS.split(client_id):
        decoded = unquote(word)
        if "=" in word:
            yield decoded
        else:
            yield from _SEPARATORS.split(decoded)


def without_suffixes(said: str, known: Collection[str]) -> str:
    """Return the longest prefix of `said`, cut at dashes, that is a known zone; else `said`."""
    return next((each for each in _beginnings(said) if each in known), said)


def _beginnings(text: str) -> Iterator[str]:
    while text:
        yield text
        text = text.rpartition("-")[0]
