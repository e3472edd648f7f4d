"""URLs that operators give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate_runtime.http.urls import is_loopback, is_url, path_of, read_file, scheme_of

SCHEMES = ("https", "http", "file")
GOOD = [
    "https://a.example/b?c=d",
    "HTTPS://a.example/",
    "http://[::1]:8080",
    "file:///a/b%20c",
    "file:/a",
]
BAD = [
    *("", "a", "a.example/b", "ftp://a/b", "https://", "https:///b", "file://", "https://a:x/"),
    *(
        "https://a:99999/",
        "https://u:p@a/b",
        "https://a/b c",
        "https://é/",
        "https://a/\n",
        "http://[",
    ),
]


@pytest.mark.parametrize("text", GOOD)
def test_urls_of_the_schemes_are_good(text: str) -> None:
    assert is_url(text, SCHEMES)
    assert not is_url(text, ())


@pytest.mark.parametrize("url", ["https://a/", "HTTPS://a/", "HttpS://a/"])
def test_a_scheme_is_told_in_small_letters(url: str) -> None:
    assert scheme_of(url) == "https"


@pytest.mark.parametrize("text", BAD)
def test_all_else_is_no_url(text: str) -> None:
    assert not is_url(text, SCHEMES)


@pytest.mark.parametrize(
    ("url", "is_it"),
    [
        ("http://127.0.0.1:1/", True),
        ("http://127.9.9.9/", True),
        ("http://[::1]/", True),
        ("http://localhost:1/", True),
        ("http://LOCALHOST/", True),
        ("http://localhost.example/", False),
        ("http://127.0.0.1.example/", False),
        ("http://10.0.0.1/", False),
        ("http://0.0.0.0/", False),
    ],
)
def test_loopback_is_told_by_the_text_alone(url: str, is_it: bool) -> None:
    assert is_loopback(url) == is_it


async def test_a_file_is_read_up_to_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "a b"
    file.write_bytes(b"content")
    assert path_of(file.as_uri()) == str(file)
    assert await read_file(file.as_uri(), 100) == b"content"
    assert await read_file(file.as_uri(), 3) == b"con"
    for missing in ("file:///nowhere/at-all", "file:///a%00b"):
        with pytest.raises(OSError, match=r"No such file|null"):
            await read_file(missing, 3)


async def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        await read_file(pipe.as_uri(), 3)
    with pytest.raises(OSError, match="directory"):
        await read_file(tmp_path.as_uri(), 3)
