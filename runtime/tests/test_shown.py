"""Places of data as commands show them."""

from __future__ import annotations

import pytest

from tidegate_runtime.shown import shown_log


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://h/db", "postgres://h/db"),
        ("postgres://ann@h1,h2:5433/db?schema=blue", "postgres://h1,h2:5433/db?schema=blue"),
        ("postgres://ann:hidden@h/db?password=hidden", "postgres://h/db"),
        ("postgres://ann:hid?den@h/db?schema=x", "postgres://h/db?schema=x"),
        ("postgres://ann:hidden?schema=hidden@h/db", "postgres://h/db"),
        ("postgres://ann:hid#hidden@h/db", "postgres://h/db"),
        ("postgres:///db?host=/run/postgresql", "postgres:///db"),
    ],
)
def test_the_shown_log_url_has_no_password(url: str, shown: str) -> None:
    assert shown_log(url) == shown
