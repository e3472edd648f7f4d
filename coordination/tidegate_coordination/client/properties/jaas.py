"""The user and password in sasl.jaas.config, or the options of another login module.  Pure.

The value is one entry, `LOGIN_MODULE FLAG name=value ... ;`, with comments and quotes as
java.io.StreamTokenizer reads them.  No error quotes the value, since it holds the password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidegate_runtime.secret import Secret

from ..errors import BadProperties

PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_TOKEN: Final = re.compile(
    r"""
      (?P<skipped> [\0-\x20]+ | /\*.*?(?:\*/|\Z) | /[^\r\n]* )
    | "(?P<double> (?:[^"\\\r\n]|\\.)* )"
    | '(?P<single> (?:[^'\\\r\n]|\\.)* )'
    | (?P<sign> [=;] )
    | (?P<word> [^\0-\x20=;"'/]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_PACKAGES: Final = {"PLAIN": "plain.Plain", "OAUTHBEARER": "oauthbearer.OAuthBearer"}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True)
class SaslCredentials:
    """A user of the cluster, or a delegation token with its id and HMAC (KIP-48)."""

    mechanism: str
    username: str
    password: Secret
    is_token: bool = False

    @property
    def who(self) -> str:
        """Return who logs in, for people."""
        return f"{'delegation token' if self.is_token else 'user'} {self.username}"


def read_credentials(mechanism: str, jaas: str) -> SaslCredentials:
    """Read the value of sasl.jaas.config.

    Args:
      mechanism: one of PASSWORD_MECHANISMS.

    Raises:
      BadProperties: the value is missing, or is no entry for the mechanism.
    """
    example = f'{login_module(mechanism)} required username="NAME" password="PASSWORD";'
    options = read_options(mechanism, jaas, example)
    is_token = options.get("tokenauth", "").lower() == "true"
    if is_token and mechanism == "PLAIN":
        raise BadProperties(
            "sasl.jaas.config has tokenauth, which PLAIN does not know: set sasl.mechanism to"
            " SCRAM-SHA-256 or SCRAM-SHA-512."
        )
    if not options.get("username") or "password" not in options:
        raise BadProperties(f"sasl.jaas.config lacks username or password: write {example}")
    return SaslCredentials(mechanism, options["username"], Secret(options["password"]), is_token)


def read_options(mechanism: str, jaas: str, example: str) -> dict[str, str]:
    """Return the options of a mechanism's login module.

    Args:
      jaas: the value of sasl.jaas.config.  example: an example of the value, for errors.

    Raises:
      BadProperties: the value is missing, or is no entry for the mechanism.
    """
    if not jaas:
        raise BadProperties(f"sasl.jaas.config is missing: set it to {example}")
    try:
        found, options = _entry(list(_tokens(jaas)))
    except _NoEntry as error:
        raise BadProperties(f"sasl.jaas.config {error}: write {example}") from None
    if found != login_module(mechanism):
        raise BadProperties(
            f"sasl.jaas.config names another login module than sasl.mechanism={mechanism} needs:"
            f" write {example}"
        )
    return options


def read_login_module(jaas: str) -> tuple[str, dict[str, str]]:
    """Return the login module of a broker's entry, and its options.

    Raises:
      BadProperties: the value is not one entry; the text begins with what is wrong.
    """
    try:
        return _entry(list(_tokens(jaas)))
    except _NoEntry as error:
        raise BadProperties(str(error)) from None


def login_module(mechanism: str) -> str:
    """Return the class name of a mechanism's login module."""
    return f"org.apache.kafka.common.security.{_package(mechanism)}LoginModule"


def _package(mechanism: str) -> str:
    return _PACKAGES.get(mechanism, "scram.Scram")


class _NoEntry(Exception):
    """The text says what is wrong, and quotes no part of the value."""


# (Whether the token is a sign, its text.)
_Token = tuple[bool, str]


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _NoEntry("has a quote that does not end")
        position = found.end()
        kind = found.lastgroup
        if kind != "skipped":
            value = str(found[str(kind)])
            yield kind == "sign", _unescaped(value) if kind in ("double", "single") else value


def _unescaped(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        escaped = found[1]
        return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)


def _entry(tokens: list[_Token]) -> tuple[str, dict[str, str]]:
    """Return the login module and the options of the only entry."""
    if not tokens or tokens[-1] != (True, ";"):
        raise _NoEntry('does not end with ";"')
    words, signs = [text for _, text in tokens[:-1]], [is_sign for is_sign, _ in tokens[:-1]]
    if len(words) < 2 or signs[:2] != [False, False] or words[1].lower() not in _FLAGS:
        raise _NoEntry("has no login module with the flag required")
    if (True, ";") in tokens[:-1]:
        raise _NoEntry("has more than one entry")
    if len(words) % 3 != 2 or signs[2:] != [False, True, False] * (len(words) // 3):
        raise _NoEntry("has an option that is not name=value")
    return words[0], dict(zip(words[2::3], words[4::3], strict=True))
