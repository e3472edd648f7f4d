"""Removes the secrets of a URL, which must not be shown or stored.  Pure.

Only this module decides which parts are secret, for the URLs of metadata logs and object stores.
The stripped URL opens the same log if the password is given in another way.  User and parameters
stay, since a dropped parameter (sslmode, sslrootcert) would weaken the connection silently.  A
password may hold characters that seem to end it, so in doubt more is stripped.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

# The URLs of these schemes are paths, in which any character belongs to a name.
_OF_FILES: Final = ("file", "memory", "sqlite")
# Everything before the @ is a token.
_OF_TOKENS: Final = ("http", "https")
_SECRET: Final = re.compile(
    r"passw|passphrase|secret|token|credential|signature|(access|account|client|server)_?key|^sig$"
)
# These parameters name the place of a secret.
_WHERE_IT_IS: Final = re.compile(r"(file|path)$")
_HOSTS: Final = re.compile(r"([^:\[\]]*|\[[^\[\]]*\])(:\d*)?(,([^:\[\]]*|\[[^\[\]]*\])(:\d*)?)*")


def without_secrets(url: str) -> str:
    """Return the given URL without passwords and tokens."""
    scheme, colon, rest = url.partition(":")
    if not colon or scheme in _OF_FILES:
        return url
    slashes = "//" if rest.startswith("//") else ""
    user, place, query = _parts(rest.removeprefix("//"))
    if slashes and not _HOSTS.fullmatch(place.partition("/")[0]):
        return f"{scheme}:{slashes}..."
    name = user.partition(":")[0] if slashes and scheme not in _OF_TOKENS else ""
    fields = "&".join(_shown(each) for each in query.split("&") if _may_be_shown(each))
    return f"{scheme}:{slashes}{name}{'@' if name else ''}{place}{'?' if fields else ''}{fields}"


def _parts(rest: str) -> tuple[str, str, str]:
    """Return user and password, place, and query."""
    authority, slash, path = rest.partition("/")
    user, _, hosts = authority.rpartition("@")
    place, _, query = f"{hosts}{slash}{path}".partition("?")
    if "@" in place:  # a password with a slash
        return "", place.rpartition("@")[2], query
    return user, place, query


def _may_be_shown(field: str) -> bool:
    name, equals, _ = field.partition("=")
    return bool(equals) and not is_secret(unquote(name))


def is_secret(parameter: str) -> bool:
    """Return whether the value of a URL's parameter is secret, by its name."""
    name = parameter.lower()
    return bool(_SECRET.search(name)) and not _WHERE_IT_IS.search(name)


def _shown(field: str) -> str:
    """Return a value as shown; it may be a URL itself, such as an endpoint."""
    name, _, value = field.partition("=")
    given = unquote(value)
    shown = without_secrets(given) if "://" in given else given
    return field if shown == given else f"{name}={quote(shown, safe=':/?=&')}"
