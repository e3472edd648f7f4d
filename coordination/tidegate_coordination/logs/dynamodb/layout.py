"""The layout of a log in DynamoDB, pure: which items there are, and how bodies are cut into them.

The table's key is (log, item_name), two texts. In the collection LOG:

    end                              next: the first free position; boundary; format
    entries/POSITION                 the head of an entry: created together with a step of `end`
    snapshots/..., chunks/...        heads of a snapshot and its chunks, named as in logs/objects

and in LOG/pieces, which is separate, since each key has its own throughput:

    HEAD'S NAME/NONCE/INDEX          a piece of a body that is too large to stand in its head

An item ends at 400 KB. Pieces come first and the head last, so a body without its head does not
count. A head names its pieces by a nonce, which no other attempt was given: two writers of one name
never share pieces. Numbers have leading zeros, so that items are in their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import crc32c

from tidegate_coordination.log.metadata_log import FIRST_POSITION, LogCorrupt

FORMAT: Final = 1
END: Final = "end"
ENTRIES: Final = "entries/"
# In sort order this follows all names of a folder.
LAST: Final = "~"
# Key and attributes of a piece need some hundred bytes of the 409,600 of an item.
PIECE_BYTES: Final = 384 * 1024
# A transaction costs twice as much a byte as a piece, and its items share one key's throughput.
INLINE_BYTES: Final = 64 * 1024

Attributes: TypeAlias = Mapping[str, str | int | bytes]


class Item(NamedTuple):
    name: str
    attributes: Attributes


class End(NamedTuple):
    """next: the first free position. boundary: the first that is not trimmed; never above next."""

    next: int
    boundary: int

    @property
    def is_pristine(self) -> bool:
        """Whether the log never held an entry, and was not set to begin at a later position."""
        return self == FIRST_END


FIRST_END: Final = End(FIRST_POSITION, FIRST_POSITION)


@dataclass(frozen=True, slots=True)
class Head:
    """size: bytes of the whole body. body: the whole body, or b"" where it is in pieces."""

    name: str
    nonce: str
    size: int
    crc: int
    pieces: int
    body: bytes


def entry_name(position: int) -> str:
    return f"{ENTRIES}{position:020}"


def entry_position(name: str) -> int:
    """The reverse of `entry_name`.

    Raises:
        LogCorrupt: it is the name of something else.
    """
    number = name.removeprefix(ENTRIES)
    if not number.isdecimal():
        raise LogCorrupt(f"the item {name!r} was not written by Tidegate: take it out of the table")
    return int(number)


def piece_prefix(name: str, nonce: str) -> str:
    return f"{name}/{nonce}/"


def piece_owner(piece: str) -> str:
    """The name of the head that a piece is for."""
    return piece.rsplit("/", 2)[0]


def cut(name: str, body: bytes, nonce: str) -> tuple[Head, list[Item]]:
    """Return the head of a body, and the pieces to store before it."""
    if len(body) <= INLINE_BYTES:
        return Head(name, nonce, len(body), _crc(name, body), 0, body), []
    starts = range(0, len(body), PIECE_BYTES)
    pieces = [
        Item(f"{piece_prefix(name, nonce)}{index:04}", {"body": body[at : at + PIECE_BYTES]})
        for index, at in enumerate(starts)
    ]
    return Head(name, nonce, len(body), _crc(name, body), len(pieces), b""), pieces


def joined(head: Head, pieces: Sequence[Item]) -> bytes:
    """Return the whole body of a head.

    Raises:
        LogCorrupt: a piece is missing, or the body is damaged.
    """
    names = [f"{piece_prefix(head.name, head.nonce)}{index:04}" for index in range(head.pieces)]
    if [each.name for each in pieces] != names:
        raise LogCorrupt(f"the item {head.name!r} has {len(pieces)} of {head.pieces} pieces")
    body = b"".join(_bytes(each, "body") for each in pieces) if names else head.body
    if len(body) != head.size or _crc(head.name, body) != head.crc:
        raise LogCorrupt(f"the item {head.name!r} fails its checksum")
    return body


def head_attributes(head: Head) -> Attributes:
    return {
        "nonce": head.nonce,
        "size": head.size,
        "crc": head.crc,
        "pieces": head.pieces,
        "body": head.body,
    }


def head_of(item: Item) -> Head:
    """The reverse of `head_attributes`.

    Raises:
        LogCorrupt: it is something else.
    """
    nonce = item.attributes.get("nonce")
    if not isinstance(nonce, str):
        raise _foreign(item.name)
    size, crc, pieces = (_number(item, each) for each in ("size", "crc", "pieces"))
    return Head(item.name, nonce, size, crc, pieces, _bytes(item, "body"))


def end_of(attributes: Attributes) -> End:
    """Raises LogCorrupt if the item is no end, or has a format that this release does not know."""
    item = Item(END, attributes)
    if (found := _number(item, "format")) != FORMAT:
        raise LogCorrupt(
            f"the log has format {found}; this release reads {FORMAT}: start a newer one"
        )
    return End(_number(item, "next"), _number(item, "boundary"))


def end_attributes(end: End) -> Attributes:
    return {"next": end.next, "boundary": end.boundary, "format": FORMAT}


def _number(item: Item, attribute: str) -> int:
    value = item.attributes.get(attribute)
    if not isinstance(value, int):
        raise _foreign(item.name)
    return value


def _bytes(item: Item, attribute: str) -> bytes:
    value = item.attributes.get(attribute)
    if not isinstance(value, bytes):
        raise _foreign(item.name)
    return value


def _foreign(name: str) -> LogCorrupt:
    return LogCorrupt(f"the item {name!r} lacks an attribute of Tidegate's: it was changed")


def _crc(name: str, body: bytes) -> int:
    """The checksum covers the name, too, so that a misplaced body is detected."""
    return crc32c.crc32c(body, crc32c.crc32c(name.encode()))
