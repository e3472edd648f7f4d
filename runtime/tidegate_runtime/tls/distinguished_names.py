"""A certificate's subject as Java's X500Principal.getName() writes it: that text is the principal.

ACLs name principals, so these must be the same as in Apache Kafka, letter by letter.  The notation
is RFC 2253 with Java's own choices: the last name part comes first.  Nine attribute types have
keywords; other types have their numbers, with the value as DER in hex.  `#`, `=` and other special
characters have a backslash, wherever they stand.  Leading and trailing blanks have a backslash
each.  Java reads the bytes of every kind of string as UTF-8.  Pure.
"""

from __future__ import annotations

from typing import Final

from .der import OBJECT_ID, SEQUENCE, SET, BadDer, Element, elements, object_id, one

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_SPECIAL: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


def java_name(name: bytes) -> str:
    """Return the text of a name in DER; "" for an empty one.

    Raises:
      BadDer: it is no name.
    """
    parts = [_part(each) for each in elements(one(name, SEQUENCE))]
    return ",".join(reversed(parts))


def _part(part: Element) -> str:
    return "+".join(_attribute(each) for each in elements(one(part.whole, SET)))


def _attribute(attribute: Element) -> str:
    fields = list(elements(one(attribute.whole, SEQUENCE)))
    if len(fields) != 2 or fields[0].tag != OBJECT_ID:
        raise BadDer("a name part that is no type and value")
    number = object_id(fields[0].body)
    keyword = _KEYWORDS.get(number)
    if keyword is None or fields[1].tag not in _STRINGS:
        return f"{keyword or number}=#{fields[1].whole.hex()}"
    return f"{keyword}={_escaped(fields[1].body.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    pieces = ["\\" + each if each in _SPECIAL else each for each in text]
    escaped = "".join(pieces).replace("\0", "\\00")
    inner = escaped.strip(_BLANKS)
    if not inner:
        return "".join(f"\\{each}" for each in escaped)
    lead = escaped[: escaped.index(inner)]
    trail = escaped[len(lead) + len(inner) :]
    return "".join([*(f"\\{each}" for each in lead), inner, *(f"\\{each}" for each in trail)])
