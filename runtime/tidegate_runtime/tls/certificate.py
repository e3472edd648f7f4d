"""The facts of a certificate that decide whether another certificate may replace it.

cryptography reads them, too, but its import costs each start 60 ms, and it refuses subjects that
Java and OpenSSL accept.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from .der import OBJECT_ID, OCTET_STRING, SEQUENCE, BadDer, Element, elements, object_id, one

_VERSION_TAG: Final = 0xA0
_EXTENSIONS_TAG: Final = 0xA3
_UTC_TIME: Final = 0x17
_SUBJECT_ALT_NAME: Final = "2.5.29.17"
# After the version: serial number, algorithm, issuer, validity, subject.
_ISSUER, _VALIDITY, _SUBJECT = 2, 3, 4


@dataclass(frozen=True, slots=True)
class Certificate:
    """der: the whole.  subject, issuer: DER of the names.  not_before, not_after: seconds since
    1970.  alt_names: the subject's alternative names, each in DER.
    """

    der: bytes
    subject: bytes
    issuer: bytes
    not_before: float
    not_after: float
    alt_names: frozenset[bytes]


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate (RFC 5280).

    Raises:
      BadDer: the bytes are not a certificate.
    """
    fields = list(elements(one(one(der, SEQUENCE), SEQUENCE)))
    if fields and fields[0].tag == _VERSION_TAG:
        del fields[0]
    if len(fields) <= _SUBJECT:
        raise BadDer("a certificate that ends too early")
    times = [_seconds(each) for each in elements(fields[_VALIDITY].body)]
    if len(times) != 2:
        raise BadDer("a validity of other than two times")
    return Certificate(
        der,
        subject=fields[_SUBJECT].whole,
        issuer=fields[_ISSUER].whole,
        not_before=times[0],
        not_after=times[1],
        alt_names=frozenset(_alt_names(fields[_SUBJECT + 1 :])),
    )


def _seconds(time: Element) -> float:
    text = time.body.decode("ascii", "replace")
    try:
        if time.tag == _UTC_TIME:  # two digits of the year: RFC 5280, 4.1.2.5.1
            text = ("20" if int(text[:2]) < 50 else "19") + text
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise BadDer("a time that is none") from None


def _alt_names(fields: list[Element]) -> Iterator[bytes]:
    blocks = [each.body for each in fields if each.tag == _EXTENSIONS_TAG]
    for block in blocks:
        for extension in elements(one(block, SEQUENCE)):
            parts = list(elements(extension.body))
            if object_id(one(extension.body, OBJECT_ID)) == _SUBJECT_ALT_NAME:
                value = one(parts[-1].whole, OCTET_STRING)
                yield from (each.whole for each in elements(one(value, SEQUENCE)))
