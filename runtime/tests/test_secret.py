"""A Secret shows itself nowhere, and gives its value only when it is asked for."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import asdict, dataclass

import msgspec
import pytest

from tidegate_runtime.secret import HIDDEN, Secret

SECRET = Secret("s3cret-\u00e9")


@dataclass(frozen=True)
class Holder:
    user: str
    password: Secret


def test_no_text_of_it_shows_it() -> None:
    holder = Holder("ann", SECRET)
    texts = [
        str(SECRET),
        repr(SECRET),
        f"{SECRET} {SECRET!r} {SECRET!s} {SECRET!a}",
        "{}".format(SECRET),  # noqa: UP032
        "%s" % SECRET,  # noqa: UP031
        repr([SECRET, {"a": SECRET}]),
        repr(holder),
        repr(asdict(holder)),
        msgspec.json.encode(holder, enc_hook=repr).decode(),
        json.dumps(asdict(holder), default=str),
    ]
    for each in texts:
        assert HIDDEN in each
        assert "s3cret" not in each
    with pytest.raises(TypeError):
        json.dumps(asdict(holder))
    with pytest.raises(TypeError):
        format(SECRET, ">20")


def test_it_gives_its_value_and_compares_as_one() -> None:
    assert SECRET.reveal() == "s3cret-\u00e9"
    assert SECRET.reveal_bytes() == "s3cret-\u00e9".encode()
    assert Secret("s3cret-\u00e9") == SECRET
    assert hash(SECRET) == hash(Secret("s3cret-\u00e9"))
    assert Secret("other") != SECRET
    assert SECRET != "s3cret-\u00e9"
    assert SECRET.matches("s3cret-\u00e9")
    assert SECRET.matches("s3cret-\u00e9".encode())
    assert not SECRET.matches("s3cret")
    assert not SECRET.matches("")
    assert (bool(SECRET), bool(Secret())) == (True, False)


def test_bytes_of_the_environment_that_are_no_text() -> None:
    odd = Secret(b"\xff\xfe".decode(errors="surrogateescape"))
    assert odd.reveal_bytes() == b"\xff\xfe"
    assert odd.matches(b"\xff\xfe")
    assert odd == odd
    assert not odd.matches("\u00ff")


def test_other_processes_may_get_it() -> None:
    """Spark's workers need a link's secrets to read from its source."""
    assert pickle.loads(pickle.dumps(SECRET)) == SECRET
    assert copy.deepcopy(SECRET) == SECRET
