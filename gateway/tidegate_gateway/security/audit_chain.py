"""The lines of an audit log, each of which proves all lines before it.  Pure.

A line is a JSON object with the number of the line, `prev` and `hash`: the SHA-256 of the line
before, and of this one without its own hash.  To change, remove, add or move a line breaks the
chain there.  The chain has no secret: its end may be cut off, or all lines after a change be made
again.  So compare a hash with one that was noted elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

BEGIN: Final = "0" * 64
"""The hash before the first line."""


class Broken(NamedTuple):
    """Where a chain is broken.  line: counted from 1, in the file."""

    line: int
    reason: str


class Chain:
    """Makes the next lines.  number, last: those of the line before; see `continued`."""

    def __init__(self, number: int = 0, last: str = BEGIN) -> None:
        self.number = number
        self.last = last

    def line(self, facts: Mapping[str, object]) -> bytes:
        """Return the next line, with its line feed."""
        entry = {"n": self.number + 1, **facts, "prev": self.last}
        own = _hash(entry)
        self.number += 1
        self.last = own
        return msgspec.json.encode({**entry, "hash": own}) + b"\n"


def continued(line: bytes) -> Chain:
    """Return the chain after a line.

    Raises:
      ValueError: it is no line of an audit log.
    """
    entry = _decoded(line)
    number, own = entry.get("n"), entry.get("hash")
    if not isinstance(number, int) or not isinstance(own, str):
        raise ValueError("it has no number or no hash")
    return Chain(number, own)


class Verdict(NamedTuple):
    """The result of a look at a chain.

    first, last: the numbers of its first and its last line; 0 without lines.  last_hash: of the
    last line; BEGIN without lines.
    """

    first: int
    last: int
    last_hash: str
    broken: tuple[Broken, ...]


def verify(lines: Iterable[bytes]) -> Verdict:
    """Look for each place at which a chain is broken.

    The chain may begin at any number, since older files may be elsewhere; but line 1 has none
    before it.
    """
    first, number, last = 0, 0, BEGIN
    broken: list[Broken] = []
    for at, line in enumerate(lines, start=1):
        try:
            entry = _decoded(line)
        except ValueError as error:
            broken.append(Broken(at, f"it is not a line of an audit log: {error}"))
            continue
        own, own_number = entry.pop("hash", None), entry.get("n")
        if not first and isinstance(own_number, int) and own_number > 1:
            number, last = own_number - 1, str(entry.get("prev"))
        broken += [Broken(at, each) for each in _wrong(entry, own, number, last)]
        if msgspec.json.encode({**entry, "hash": own}) != line.rstrip(b"\n"):
            broken.append(Broken(at, "it is not written as a gateway writes it"))
        number = own_number if isinstance(own_number, int) else number + 1
        last = own if isinstance(own, str) else ""
        first = first or number
    return Verdict(first, number, last, tuple(broken))


def _wrong(entry: Mapping[str, object], own: object, number: int, last: str) -> Iterator[str]:
    if entry.get("n") != number + 1:
        yield f"its number is {entry.get('n')}, and not {number + 1}"
    if entry.get("prev") != last:
        yield "it does not follow the line before it"
    if own != _hash(entry):
        yield "it was changed"


def _hash(entry: Mapping[str, object]) -> str:
    return sha256(msgspec.json.encode(entry)).hexdigest()


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
