"""A URL is shown as given, without its secrets."""

import pytest

from tidegate_runtime.url_secrets import without_secrets

AS_GIVEN = (
    "b",
    "memory:",
    "sqlite:new log@home.db",
    "sqlite:///var/lib/a?b/metadata.db",
    "file:///a@b/objects",
    "postgres://h/db",
    "postgres://tidegate@h/db?schema=moved",
    "postgres://ann@h1,h2:5433/db?sslmode=verify-full&sslrootcert=/etc/a@b.pem&schema=blue",
    "postgres://h/db?sslrootcert=/etc/a@b.pem",
    "postgres://ann@[::1]:5432/db?application_name=gw%201&passfile=/etc/pgpass&sslkey=/etc/key",
    "postgres:///db?host=/run/postgresql",
    "http://h:9645/prefix?token-file=/etc/token&ca-file=/etc/ca",
    "s3://bucket/pre/fix?endpoint=http://127.0.0.1:8333&region=us-east-1",
    "gs://bucket/prefix?service_account=/etc/account.json",
    "forward:h1:1,h2:2?token-file=FILE",
    "plug-in:table:part/of?it=1",
)


@pytest.mark.parametrize("url", AS_GIVEN)
def test_a_url_without_secrets_is_shown_unchanged(url: str) -> None:
    assert without_secrets(url) == url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ann:hidden@h/db?sslmode=require", "postgres://ann@h/db?sslmode=require"),
        ("postgres://ann:hidden@h/db?password=hidden", "postgres://ann@h/db"),
        ("postgres://h/db?sslpassword=hidden&schema=x", "postgres://h/db?schema=x"),
        ("postgres://h/db?oauth_client_secret=hidden", "postgres://h/db"),
        ("postgres://h/db?scram_client_key=hidden", "postgres://h/db"),
        ("postgres://h/db?PASS%57ORD=hidden&a=b", "postgres://h/db?a=b"),
        ("postgres://ann:hid?den@h/db?schema=x", "postgres://ann@h/db?schema=x"),
        ("postgres://ann:hidden?schema=hidden@h/db", "postgres://ann@h/db"),
        ("postgres://ann:hid#hidden@h/db", "postgres://ann@h/db"),
        ("postgres://ann:hidden@hidden@h/db", "postgres://ann@h/db"),
        ("postgres://:hidden@h/db", "postgres://h/db"),
        ("http://:hidden@h:9645/p?ca-file=/c", "http://h:9645/p?ca-file=/c"),
        ("https://hidden@h", "https://h"),
        ("forward::hidden@h:1?token-file=F", "forward:h:1?token-file=F"),
        ("s3://key:hidden@bucket/p", "s3://key@bucket/p"),
        ("s3://b/p?endpoint=http://u:hidden@h:1&region=r", "s3://b/p?endpoint=http://h:1&region=r"),
        ("s3://b?endpoint=http%3A%2F%2Fu%3Ahidden%40h", "s3://b?endpoint=http://h"),
        ("az://c/p?account_key=hidden&sig=hidden&account_name=a", "az://c/p?account_name=a"),
    ],
)
def test_the_secrets_of_a_url_are_left_out(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgres://ann:hidden/word@h/db",
        "postgres://ann:5432/hidden@h/db",
        "postgres://ann:hidden/wo?rd@h/db",
        "postgres://ann:5432/x?hidden@h/db",
        "postgres:ann:hidden@h/db",
    ],
)
def test_of_a_malformed_url_less_is_shown(url: str) -> None:
    assert "hidden" not in without_secrets(url)
