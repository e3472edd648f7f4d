"""The search for canaries finds each encoding; otherwise it would prove nothing."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from tests.worlds.canaries.canaries import encodings, leaks, leaks_in_files

SECRET = "Canary \"é\\/%+&=' 8d0f".encode()
TEXT = SECRET.decode()
CANARIES = {"password": SECRET, "token": b"other-canary-77aa51"}

WRITERS: dict[str, Callable[[], bytes]] = {
    "raw": lambda: SECRET,
    "repr": lambda: repr({"password": TEXT}).encode(),
    "repr of bytes": lambda: repr(SECRET).encode(),
    "ascii": lambda: ascii(TEXT).encode(),
    "nested JSON": lambda: json.dumps({"a": [TEXT]}).encode(),
    "JSON without escapes": lambda: json.dumps({"a": TEXT}, ensure_ascii=False).encode(),
    "URL": lambda: quote(TEXT).encode(),
    "userinfo": lambda: quote(TEXT, safe="").encode(),
    "query": lambda: urlencode({"password": TEXT}).encode(),
    "hex": SECRET.hex().encode,
    "upper hex": SECRET.hex().upper().encode,
    "hex dump": SECRET.hex(" ").encode,
    "base64": lambda: b64encode(SECRET),
    "PLAIN token": lambda: b64encode(b"\0alice\0" + SECRET),
    "basic authorization": lambda: b64encode(b"ann:" + SECRET + b"\n"),
    "base64 for URLs": lambda: urlsafe_b64encode(b"x" + SECRET),
    "base64 in lines": lambda: encodebytes(b"some words before it" * 3 + SECRET),
    "wrapped text": lambda: SECRET[:8] + b"\r\n" + SECRET[8:],
    "UTF-16": lambda: TEXT.encode("utf-16"),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("before", ["", "a", "ab"])
def test_it_finds_what_writers_write(writer: str, before: str) -> None:
    [found] = leaks(CANARIES, before.encode() + b" " + WRITERS[writer]() + b" after", "here")
    assert (found.kind, found.place) == ("password", "here")


def test_it_finds_each_encoding_and_nothing_else() -> None:
    for _, sought in encodings(SECRET):
        assert [each.kind for each in leaks(CANARIES, b"<" + sought + b">", "")] == ["password"]
    assert leaks(CANARIES, b"Canary other-canary [hidden] 8d0f" * 9, "") == []
    both = leaks(CANARIES, b"other-canary-77aa51" + SECRET, "")
    assert {each.kind for each in both} == {"password", "token"}


def test_it_looks_at_all_files_and_their_names(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "log").write_bytes(bytes(9) + SECRET)
    (tmp_path / "other-canary-77aa51").touch()
    (tmp_path / "clean").write_bytes(gzip.compress(b"nothing"))
    found = leaks_in_files(CANARIES, tmp_path)
    assert [(each.kind, Path(each.place).name) for each in found] == [
        ("password", "log"),
        ("token", "other-canary-77aa51"),
    ]
