"""The parsed URL of a PostgreSQL log.

No error here shows text that may be part of a password.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final
from urllib.parse import parse_qsl, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_runtime.url_secrets import is_secret

DEFAULT_SCHEMA: Final = "tidegate"
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_FORM: Final = "write postgres://USER@HOST:PORT/DATABASE?schema=NAME"
_QUOTING: Final = (
    f"{_FORM}; in a user or password : / @ ? # and % are written %3A %2F %40 %3F %23 %25"
)
# The time limit of connecting to all hosts; shorter than a call's.
_HOSTS_SECONDS: Final = 8
# TCP detects a server that vanished silently in about the time limit of a call.
_DEFAULTS: Final = {
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "fallback_application_name": "tidegate",
}


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """libpq's parameters, some of them secret, and the schema that is the log."""

    parameters: dict[str, str]
    schema: str

    @property
    def shown(self) -> str:
        """The log's address, without secrets."""
        host = self.parameters.get("host", "")
        return f"the PostgreSQL log {self.schema!r}" + (f" at {host}" if host else "")

    def hide(self, text: str) -> str:
        """Return a message of server or driver on one line, without passwords."""
        line = " ".join(text.split())
        for name, value in self.parameters.items():
            if value and is_secret(name):
                line = line.replace(" ".join(value.split()), "***")
        return line


def parse_url(url: str) -> Address:
    """Raises LogMisconfigured with a sentence."""
    scheme, slashes, rest = url.partition("://")
    if not slashes or scheme not in ("postgres", "postgresql"):
        raise LogMisconfigured(_FORM)
    # libpq takes a user to end at the first @, so a ? before it is part of the password.
    user, at, place = rest.partition("@") if "@" in rest.split("/")[0] else ("", "", rest)
    place, _, query = place.partition("?")
    fields = parse_qsl(query, keep_blank_values=True)
    schema = dict(fields).get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise LogMisconfigured("schema is up to 40 small letters, digits and _, no digit first")
    kept = urlencode([(name, value) for name, value in fields if name != "schema"])
    parameters = _parameters(f"postgres://{user}{at}{place}" + (f"?{kept}" if kept else ""), fields)
    return Address(_with_defaults(parameters), schema)


def _parameters(url: str, fields: list[tuple[str, str]]) -> dict[str, str]:
    # The URL is checked here, since libpq's errors quote the text that it could not parse.
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()} | {"ssl"}
    for name, _ in fields:
        if name not in known and name != "schema":
            near = get_close_matches(name, [*known, "schema"], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise LogMisconfigured(f"libpq has no parameter {name!r}, nor has this log{hint}")
    try:
        parameters = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except (psycopg.Error, UnicodeError):
        raise LogMisconfigured(f"the URL is not understood: {_QUOTING}") from None
    ports = parameters.get("port", "").split(",")
    if any(port and not port.isdigit() for port in ports):
        raise LogMisconfigured(f"its port is not a number: {_QUOTING}")
    if any("@" in parameters.get(name, "") for name in ("host", "dbname")):
        raise LogMisconfigured(f"a host or a database has an @ in its name: {_QUOTING}")
    return parameters


def _with_defaults(parameters: dict[str, str]) -> dict[str, str]:
    defaults = dict(_DEFAULTS)
    hosts = 1 + max(parameters.get(name, "").count(",") for name in ("host", "hostaddr"))
    if hosts > 1:
        # of several hosts, the one that accepts writes
        defaults["target_session_attrs"] = "read-write"
    # libpq's timeout is for each host, at least 2. A call that has not reached the last host in
    # time would begin again with the first.
    defaults["connect_timeout"] = str(max(2, min(5, _HOSTS_SECONDS // hosts)))
    return {**defaults, **parameters, "client_encoding": "UTF8"}
