"""Values for the generated message classes, of every version, made from their types alone."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from random import Random
from typing import Any

from tidegate_protocol.errors import LocalProtocolError

TEXTS = ("", "orders", "group", "é\U0001f40c", "x" * 200, "compression.type", "consumer", "*")
NUMBERS = (0, 0, 1, 1, 2, 3, -1, 7, 100, 127, 1000, 30_000, 2**31 - 1, 2**62, -(2**31))
BLOBS = (b"", b"\0", b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff", b"\xff" * 40, bytes(300))
IDS = (bytes(16), bytes(range(16)), b"\xff" * 16)
UUID_BYTES = 16
MAX_TRIES = 60


@cache
def _types(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@dataclass(slots=True)
class Shaper:
    """Makes values of message classes.

    absent: names of fields, without underscores, that the current version cannot carry.
    """

    rng: Random
    texts: Sequence[str] = TEXTS
    absent: set[str] = field(default_factory=set[str])
    modesty: int = 0

    def make(self, cls: type) -> Any:
        """Return a value of a message class."""
        made = cls()
        hints = _types(cls)
        for each in fields(cls):
            if each.name.replace("_", "") not in self.absent and self.rng.random() < 0.8:
                setattr(made, each.name, self._value(hints[each.name], each))
        return made

    def _value(self, hint: Any, each: Field[Any]) -> Any:
        rng = self.rng
        parts = typing.get_args(hint)
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            if type(None) in parts and rng.random() < 0.3:
                return None
            hint = next((part for part in parts if part in (str, bytes)), parts[0])
            parts = typing.get_args(hint)
        if typing.get_origin(hint) is list:
            return [self._value(parts[0], each) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        return self._plain(hint, each)

    def _plain(self, hint: Any, each: Field[Any]) -> Any:
        rng = self.rng
        if hint is bool:
            return rng.random() < 0.5
        if hint is int:
            return rng.choice(NUMBERS[: len(NUMBERS) - self.modesty])
        if hint is str:
            return rng.choice(self.texts)
        if hint is bytes:
            is_id = "uuid" in each.name or "id" in each.name.split("_") or _is_id(each.default)
            return rng.choice(IDS if is_id else BLOBS)
        if hint is float:
            return rng.choice((0.0, 1.5, -1.0))
        return self.make(hint)


def _is_id(default: object) -> bool:
    return default is not MISSING and isinstance(default, bytes) and len(default) == UUID_BYTES


def message(
    rng: Random, cls: type, version: int, encode: Any, *, texts: Sequence[str] = TEXTS
) -> bytes | None:
    """Return the bytes of a random message that the version can carry; None if none was found."""
    shaper = Shaper(rng, texts)
    for _ in range(MAX_TRIES):
        try:
            encoded = encode(shaper.make(cls), version)
        except LocalProtocolError as error:
            _learn(shaper, str(error))
        else:
            return joined(encoded)
    return None


def joined(encoded: Any) -> bytes:
    """Return an encoder's result, one buffer or a list of them, as one."""
    if isinstance(encoded, bytes | bytearray):
        return bytes(encoded)
    return b"".join(encoded)


def _learn(shaper: Shaper, complaint: str) -> None:
    name, _, rest = complaint.partition(" ")
    if rest.startswith(("is set", "may not be null")):
        shaper.absent.add(name.lower())
    else:
        shaper.modesty = min(shaper.modesty + 1, len(NUMBERS) - 4)
