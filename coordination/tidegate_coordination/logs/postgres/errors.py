"""Translates errors of psycopg into errors of a metadata log, with sentences.

A refusal that an operator must fix is LogMisconfigured.  Lost or damaged tables are LogCorrupt.
Other errors of the server or the connection are outages: then the call's outcome is unknown.
An error that only a bug of Tidegate causes is not translated.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import psycopg

from tidegate_coordination.log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.postgres.url import Address

# By SQLSTATE, of statements.
_MISCONFIGURED: Final = {
    "25006": "it takes no writes; name the primary server",
    "26000": "connect to PostgreSQL itself, or to a pooler in session mode",
    "3F000": "grant the role its schema: ALTER SCHEMA {schema} OWNER TO the role",
    "42501": "let the role have a schema of its own:"
    " CREATE SCHEMA {schema} AUTHORIZATION the role, as a superuser",
    "42P05": "connect to PostgreSQL itself, or to a pooler in session mode",
    "42P07": "the schema {schema} holds tables of other programs: name another with ?schema=NAME",
}
_CORRUPT: Final = {
    "42P01": "; its tables were dropped: restore it with `tidegate log restore`, unless a pooler"
    " that is not in session mode stands before it",
    "XX001": "",
    "XX002": "",
}
# By SQLSTATE, of connecting.
_REFUSED_BY_SERVER: Final = {
    "28000": "let the role in, in the server's pg_hba.conf, or create it, with LOGIN",
    "28P01": "check user and password: in the URL, PGPASSWORD or the password file",
    "3D000": "create the database first, as with createdb",
    "42501": "GRANT CONNECT ON DATABASE ... TO the role",
}
# Refusals of libpq itself have no SQLSTATE. Its sentences are English here, since Python leaves the
# locale of messages alone.
_REFUSED_BY_LIBPQ: Final = (
    (
        "no password supplied",
        "check user and password: in the URL, PGPASSWORD or the password file",
    ),
    (
        "does not support SSL|certificate|invalid sslmode|SSL error",
        "see sslmode and sslrootcert in the URL",
    ),
    ("service .* not found|service file", "see service in the URL and the service file"),
    (
        "invalid (integer|port|connection|\\w+) .*(value|number|option)",
        "correct the URL's parameters",
    ),
)
# The table above has the server's known errors. Other errors are temporary: the server ended a
# transaction that was idle for too long (25P03), or a proxy lost the server (XX000).
_OUTAGES: Final = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)


@contextmanager
def translated_errors(address: Address, doing: str) -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        # Not `from error`: psycopg's text may hold secrets of the connection.
        raise translated(address, doing, error) from None


def translated(address: Address, doing: str, error: psycopg.Error) -> Exception:
    """Return the error for the caller; a bug of Tidegate is returned unchanged."""
    text = f"{address.shown} could not {doing}: {address.hide(str(error))}"
    state = error.sqlstate or ""
    if state in _MISCONFIGURED:
        return LogMisconfigured(f"{text}; {_MISCONFIGURED[state].format(schema=address.schema)}")
    if state in _CORRUPT:
        return LogCorrupt(f"{text}{_CORRUPT[state]}")
    if not isinstance(error, _OUTAGES):
        return error
    advice = "" if state else _advice_of_libpq(str(error))
    return LogMisconfigured(f"{text}; {advice}") if advice else LogUnavailable(text)


def _advice_of_libpq(text: str) -> str:
    return next((advice for words, advice in _REFUSED_BY_LIBPQ if re.search(words, text)), "")


def advice_on_refusal(state: str) -> str:
    """Return advice to the operator about a refused connection; "" if waiting may help."""
    return _REFUSED_BY_SERVER.get(state, "")
