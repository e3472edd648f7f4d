"""The lines of an audit log: the hash of each line covers all lines before it.  Pure.

A line is a JSON object with its number, `prev` and `hash`.  `prev` is the hash of the line before;
`hash` is the SHA-256 of this line without `hash`.  A changed, removed, added or moved line breaks
the chain at its place.  The chain has no secret, so an attacker can cut off its end, or change a
line and compute all later lines again.  To notice this, compare a hash with one that was noted
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

BEGIN: Final = "0" * 64
"""The hash before the first line."""


class Broken(NamedTuple):
    """A place where a chain is broken. line: the line of the file, counted from 1."""

    line: int
    reason: str


class Chain:
    """Makes the next lines. number, last: number and hash of the line before; see `continued`."""

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
    """Return the chain that continues after a line.

    Raises:
      ValueError: the text is no line of an audit log.
    """
    entry = _decoded(line)
    number, own = entry.get("n"), entry.get("hash")
    if not isinstance(number, int) or not isinstance(own, str):
        raise ValueError("it has no number or no hash")
    return Chain(number, own)


class Verdict(NamedTuple):
    """The result of a check of a chain.

    first, last: the numbers of its first and its last line; 0 without lines. last_hash: the hash of
    the last line; BEGIN without lines.
    """

    first: int
    last: int
    last_hash: str
    broken: tuple[Broken, ...]


def verify(lines: Iterable[bytes]) -> Verdict:
    """Find each place at which a chain is broken.

    The chain may begin at any number, since older files may be elsewhere; but no line may come
    before number 1.
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
