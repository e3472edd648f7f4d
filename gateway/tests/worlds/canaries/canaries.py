"""Secrets that are easy to find again, and the search for them in any bytes.

The search looks for a canary as it is, and in the encodings in which code may print or send it:
base64, hex, Python's repr, JSON, percent-encoding, and UTF-16.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus

# How many characters of base64 text may depend on the bytes before or after the secret.
_EDGE: Final = 4
_LINE_BREAKS: Final = re.compile(rb"\\n|[\r\n]+")


class Leak(NamedTuple):
    """A canary that was found."""

    kind: str
    encoding: str
    place: str
    around: str


def encodings(secret: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of all ways in which a secret may appear."""
    text = secret.decode(errors="surrogateescape")
    yield "raw", secret
    yield "repr", repr(text)[1:-1].encode(errors="surrogateescape")
    yield "repr of bytes", repr(secret)[2:-1].encode()
    yield "ascii", ascii(text)[1:-1].encode()
    for is_ascii in (True, False):
        escaped = json.dumps(text, ensure_ascii=is_ascii)[1:-1]
        yield "JSON", escaped.encode(errors="surrogateescape")
    for safe in ("", "/"):
        yield "percent", quote(secret, safe=safe).encode()
        yield "percent", quote(secret, safe=safe).lower().encode()
    yield "form", quote_plus(secret).encode()
    yield "hex", secret.hex().encode()
    yield "hex", secret.hex().upper().encode()
    yield "hex with spaces", secret.hex(" ").encode()
    yield "UTF-16", secret.decode(errors="replace").encode("utf-16-le")
    for shift in range(3):
        inner = b64encode(bytes(shift) + secret)[_EDGE if shift else 0 :].rstrip(b"=")[:-_EDGE]
        yield "base64", inner
        yield "base64", inner.replace(b"+", b"-").replace(b"/", b"_")


def leaks(canaries: Mapping[str, bytes], data: bytes, place: str) -> list[Leak]:
    """Return the canaries in some bytes, each once.  canaries: secrets by kind.

    Line breaks in the bytes may cut a canary.
    """
    joined = _LINE_BREAKS.sub(b"", data)
    found: dict[str, Leak] = {}
    for kind, secret in canaries.items():
        for encoding, sought in encodings(secret):
            for each in (data, joined):
                at = each.find(sought)
                if at >= 0 and kind not in found:
                    around = each[max(at - 80, 0) : at + 80].decode(errors="replace")
                    found[kind] = Leak(kind, encoding, place, around)
    return list(found.values())


def leaks_in_files(canaries: Mapping[str, bytes], folder: Path) -> list[Leak]:
    """Return the canaries in all files below a folder, and in their names."""
    return [
        leak
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for leak in leaks(canaries, str(path).encode() + b"\0" + path.read_bytes(), str(path))
    ]
