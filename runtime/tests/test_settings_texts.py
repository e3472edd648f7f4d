"""Settings read as texts: TOML, server.properties, `name=value`."""

from __future__ import annotations

import pytest

from tidegate_runtime.settings_texts import BadSource, read_assignments, read_properties, read_toml


def test_toml_tables_are_dots() -> None:
    content = """
    listeners = ["PLAINTEXT://a:1", "INNER://b:2"]
    auto.create.topics.enable = false
    [wal]
    linger.ms = 5
    put.budget.per.second = 2.5
    """
    assert read_toml(content, "x.toml") == {
        "listeners": "PLAINTEXT://a:1,INNER://b:2",
        "auto.create.topics.enable": "false",
        "wal.linger.ms": "5",
        "wal.put.budget.per.second": "2.5",
    }


@pytest.mark.parametrize("content", ["a = ", "since = 2020-01-01"])
def test_toml_that_cannot_be_read(content: str) -> None:
    with pytest.raises(BadSource, match=r"x\.toml"):
        read_toml(content, "x.toml")


def test_properties_as_java_reads_them() -> None:
    content = r"""
# a comment
! another
node.id=7
broker.rack : eu west
num.partitions 3
listeners=PLAINTEXT://a:1,\
          INNER://b:2
cluster.id = caf\u00e9\=\:\\x
instance.key=
log.dirs=/a\\
log.retention.ms=1=2
"""
    assert read_properties(content, "p") == {
        "node.id": "7",
        "broker.rack": "eu west",
        "num.partitions": "3",
        "listeners": "PLAINTEXT://a:1,INNER://b:2",
        "cluster.id": r"café=:\x",
        "instance.key": "",
        "log.dirs": "/a\\",
        "log.retention.ms": "1=2",
    }


def test_no_error_shows_a_value() -> None:
    for content in (r"peer.token=\uabc", r"peer.token=\us3cr", r"a\us3cr=b"):
        with pytest.raises(BadSource) as refused:
            read_properties(content, "p")
        assert "s3cr" not in str(refused.value)
    for items in (["a=b", "peer.token:s3cret"], ["s3cret"]):
        with pytest.raises(BadSource, match=f"number {len(items)}") as refused:
            read_assignments(items)
        assert "s3cret" not in str(refused.value)


def test_a_broken_escape_is_refused() -> None:
    with pytest.raises(BadSource, match="for a backslash"):
        read_properties(r"a=\u12", "p")


def test_two_escapes_may_be_one_character() -> None:
    r"""Java's characters have 16 bits, so U+1F600 is \ud83d\ude00."""
    found = read_properties(r"a\ud83d\ude00=b\ud83d\ude00c", "p")
    assert found == {"a\U0001f600": "b\U0001f600c"}


@pytest.mark.parametrize("value", [r"\ud83d", r"\ude00\ud83d", r"\ud83d\u0041"])
def test_half_a_character_is_refused(value: str) -> None:
    with pytest.raises(BadSource, match="half a character") as refused:
        read_properties(f"a={value}", "p")
    assert "d83d" not in str(refused.value)


def test_assignments() -> None:
    with pytest.raises(BadSource, match="write name=value"):
        read_assignments(["num.partitions"])
    assert read_assignments(["cluster.id = a=b "]) == {"cluster.id": "a=b"}
