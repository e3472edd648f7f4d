"""URLs of PostgreSQL logs: libpq's, and one parameter of Tidegate."""

import pytest

from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.postgres.url import parse_url


def test_the_url_is_libpqs_with_a_schema() -> None:
    address = parse_url("postgres://ann:p%40ss%2Fw@h1,h2:5433/db?sslmode=verify-full&schema=blue")
    found = {name: address.parameters[name] for name in ("user", "password", "host", "dbname")}
    assert found == {"user": "ann", "password": "p@ss/w", "host": "h1,h2", "dbname": "db"}
    assert address.parameters["sslmode"] == "verify-full"
    assert address.parameters["target_session_attrs"] == "read-write"
    assert address.schema == "blue"
    assert "ss/w" not in address.shown + repr(address)


def test_shown_messages_are_one_line_without_the_password() -> None:
    address = parse_url("postgres://ann:hidden@h/db")
    assert address.hide("FATAL:  hidden\n\tis wrong\n") == "FATAL: *** is wrong"
    address = parse_url("postgres://ann:two%20words@h/db?sslpassword=other&sslkey=key")
    assert address.hide("no two\nwords, no other, but key") == "no ***, no ***, but key"


def test_missing_parts_of_the_url_are_left_to_libpq() -> None:
    address = parse_url("postgresql://")
    assert not {"user", "password", "host", "dbname"} & address.parameters.keys()
    assert (address.schema, address.parameters["connect_timeout"]) == ("tidegate", "5")
    assert parse_url("postgres:///db?connect_timeout=9").parameters["connect_timeout"] == "9"
    assert "target_session_attrs" not in parse_url("postgres://h/db").parameters


@pytest.mark.parametrize(
    ("hosts", "seconds"), [("h", 5), ("h1,h2", 4), ("h1,h2,h3", 2), ("h1,h2,h3,h4", 2)]
)
def test_all_hosts_are_tried_within_a_call(hosts: str, seconds: int) -> None:
    found = parse_url(f"postgres://{hosts}/db").parameters["connect_timeout"]
    assert found == str(seconds)
    assert parse_url(f"postgres:///db?host={hosts}").parameters["connect_timeout"] == found


@pytest.mark.parametrize("place", ["/run/postgresql", "%2Frun%2Fpostgresql"])
def test_a_socket_is_a_host(place: str) -> None:
    assert parse_url(f"postgres:///db?host={place}").parameters["host"] == "/run/postgresql"


def test_a_question_mark_in_a_password_is_part_of_it() -> None:
    address = parse_url("postgres://u:what?schema=x@h/db")
    assert (address.parameters["password"], address.schema) == ("what?schema=x", "tidegate")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgres:", "write postgres://USER@HOST:PORT/DATABASE"),
        ("postgres:db", "write postgres://"),
        ("postgres://u:hidden/word@h/db", "%2F"),
        ("postgres://u:5432/hidden@h/db", "has an @ in its name"),
        ("postgres://u:pass@hidden@h/db", "has an @ in its name"),
        ("postgres://u:100%hidden@h/db", "the URL is not understood"),
        ("postgres://u:hidden@h:54x2/db", "port is not a number"),
        (
            "postgres://u:hidden@h/db?sslmod=require",
            "'sslmod', nor has this log; did you mean sslmode",
        ),
        ("postgres://u:hidden@h/db?schema=Blue-1", "schema is up to 40 small letters"),
        ("postgres://u:hidden@h/db?schema=", "schema is up to 40 small letters"),
    ],
)
def test_errors_of_a_url_do_not_show_the_password(url: str, sentence: str) -> None:
    with pytest.raises(LogMisconfigured) as refused:
        parse_url(url)
    assert sentence in str(refused.value)
    assert "hidden" not in str(refused.value)
    assert "\n" not in str(refused.value)
