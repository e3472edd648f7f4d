"""Reads DER: the few parts of certificates and key stores that ssl and cryptography do not show.

The bytes are untrusted, so each length is checked, and nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
SET: Final = 0x31
OBJECT_ID: Final = 0x06
OCTET_STRING: Final = 0x04
_LONG_FORM: Final = 0x80
_MAX_LENGTH_BYTES: Final = 4
_MULTI_BYTE_TAG: Final = 0x1F


class BadDer(ValueError):
    """The bytes are not DER, or not of the expected kind."""


class Element(NamedTuple):
    """tag: the first byte. body: the content, without tag and length.

    whole: all bytes, with tag and length.
    """

    tag: int
    body: bytes
    whole: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that follow each other.

    Raises:
      BadDer: the bytes are no sequence of elements.
    """
    at = 0
    while at < len(data):
        found = _element(data, at)
        at += len(found.whole)
        yield found


def one(data: bytes, tag: int) -> bytes:
    """Return the body of the first element, which must have the tag.

    Raises:
      BadDer: the element has another tag, or there is no element.
    """
    found = _element(data, 0)
    if found.tag != tag:
        raise BadDer(f"tag {found.tag:#04x}, not {tag:#04x}")
    return found.body


def object_id(body: bytes) -> str:
    """Return the dotted notation of an object identifier.

    Raises:
      BadDer: the body ends within a number.
    """
    numbers: list[int] = []
    number = 0
    for byte in body:
        number = number << 7 | byte & 0x7F
        if byte < _LONG_FORM:
            numbers.append(number)
            number = 0
    if not body or body[-1] >= _LONG_FORM:
        raise BadDer("an object identifier that does not end")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _element(data: bytes, start: int) -> Element:
    if len(data) - start < 2:
        raise BadDer("it ends too early")
    tag, length, at = data[start], data[start + 1], start + 2
    if tag & _MULTI_BYTE_TAG == _MULTI_BYTE_TAG:
        raise BadDer("a tag of several bytes")
    if length >= _LONG_FORM:
        size = length - _LONG_FORM
        if not 0 < size <= _MAX_LENGTH_BYTES:
            raise BadDer("a length of no or too many bytes")
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    if at + length > len(data):
        raise BadDer("it ends too early")
    return Element(tag, data[at : at + length], data[start : at + length])
