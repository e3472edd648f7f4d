"""How a link gets its tokens for OAUTHBEARER (KIP-255, KIP-768).  Pure.

The names are those of Kafka 4.3.1: a token endpoint is asked with the grant client_credentials, or
a file holds the token.  As in Kafka, a property takes precedence over the option of
sasl.jaas.config with the same meaning.  The endpoint is another server than the brokers, so only
options of sasl.jaas.config set its TLS.

Differs from Kafka: an endpoint on another machine must be https, since it gets the secret; there
are no unsigned tokens, which Kafka makes up where no handler class is named; and there are no
assertions in place of the secret yet (KIP-1139, KIP-1258).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tidegate_runtime.http.urls import is_loopback, is_url, path_of, scheme_of
from tidegate_runtime.secret import Secret

from ..errors import BadProperties
from .jaas import login_module, read_options
from .tls import TlsProperties, one_of, read_tls
from .token_times import TokenTimes, read_token_times

OAUTHBEARER: Final = "OAUTHBEARER"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
_URLENCODE: Final = "sasl.oauthbearer.header.urlencode"
_ASSERTION: Final = "sasl.oauthbearer.assertion."
_SCHEMES: Final = ("https", "http", "file")
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
# Kafka's own classes that do what is done here.
_CLASSES: Final = {
    "sasl.login.callback.handler.class": (
        f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
        f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",  # before 4.0
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_PACKAGE}.DefaultJwtRetriever",
        f"{_PACKAGE}.ClientCredentialsJwtRetriever",
        f"{_PACKAGE}.FileJwtRetriever",
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        f"{_PACKAGE}.DefaultJwtValidator",
        f"{_PACKAGE}.ClientJwtValidator",
    ),
}
_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


@dataclass(frozen=True, slots=True)
class BearerCredentials:
    """Where a link gets its tokens.

    Attributes:
      url: the URL of the token endpoint, or of a file that holds a token; the URL names no user.
      client_id, client_secret: the login to the endpoint.
      scope: the scope to ask for; "" for the endpoint's default.
      is_urlencoded: whether id, secret and scope are encoded as RFC 6749 has it.
      extensions: names and values of SASL extensions.
      tls: the TLS properties of an https endpoint.
    """

    url: str
    client_id: str = ""
    client_secret: Secret = field(default_factory=Secret)
    scope: str = ""
    is_urlencoded: bool = False
    extensions: tuple[tuple[str, Secret], ...] = ()
    tls: TlsProperties = field(default_factory=TlsProperties)
    times: TokenTimes = field(default_factory=TokenTimes)

    @property
    def is_file(self) -> bool:
        """Return whether the token is in a file."""
        return scheme_of(self.url) == "file"

    @property
    def place(self) -> str:
        """Return where tokens come from, for people."""
        return path_of(self.url) if self.is_file else urlsplit(self.url).netloc

    @property
    def who(self) -> str:
        """Return whose tokens they are, for people."""
        return f"the token in {self.place}" if self.is_file else f"client {self.client_id}"


def read_bearer(texts: dict[str, str], jaas: str) -> BearerCredentials:
    """Read the properties, and remove from the texts those that have an effect.

    Args:
      jaas: the value of sasl.jaas.config.

    Raises:
      BadProperties: one is wrong, missing or not supported.
    """
    _check_classes(texts)
    options = _options(jaas)
    url = texts.pop(ENDPOINT, "").strip()
    _check_url(url)
    found = BearerCredentials(
        url,
        _either(texts, CLIENT_ID, options, "clientId"),
        Secret(_either(texts, CLIENT_SECRET, options, "clientSecret")),
        _either(texts, SCOPE, options, "scope"),
        _is_urlencoded(texts),
        _extensions(options),
        _endpoint_tls(options),
        read_token_times(texts),
    )
    if not found.is_file:
        _check_credentials(found)
    return found


def _check_classes(texts: dict[str, str]) -> None:
    for name, known in _CLASSES.items():
        if texts.pop(name, known[0]) not in known:
            raise BadProperties(
                f"{name} names a Java class, which cannot be loaded here: remove it, and set"
                f" {ENDPOINT}."
            )
    if any(each.startswith(_ASSERTION) for each in texts):
        raise BadProperties(
            f"{_ASSERTION}* is not supported yet: set {CLIENT_ID} and {CLIENT_SECRET}, or name a"
            f" file that holds the token in {ENDPOINT}."
        )


def _options(jaas: str) -> Mapping[str, str]:
    # In KIP-768 sasl.jaas.config holds id and secret. Here it may be missing if properties hold
    # them.
    if not jaas:
        return {}
    example = f"{login_module(OAUTHBEARER)} required;"
    options = read_options(OAUTHBEARER, jaas, example)
    if any(each.startswith("unsecuredLogin") for each in options):
        raise BadProperties(
            "sasl.jaas.config has options for unsigned tokens, which links do not make: remove"
            f" them, and set {ENDPOINT}."
        )
    return options


def _check_url(url: str) -> None:
    example = "https://HOST/PATH of the token endpoint, or file:///PATH of a file with the token"
    if not url:
        raise BadProperties(f"{ENDPOINT} is missing: set it to {example}.")
    if not is_url(url, _SCHEMES):
        raise BadProperties(f"{ENDPOINT} is no URL of {one_of(_SCHEMES)}: set it to {example}.")
    if scheme_of(url) == "http" and not is_loopback(url):
        raise BadProperties(
            f"{ENDPOINT} is http, which shows the client's secret to all on the way: use https."
        )


def _either(texts: dict[str, str], name: str, options: Mapping[str, str], option: str) -> str:
    """Return the value of a property, or else of an option."""
    return texts.pop(name, options.get(option, "")).strip()


def _check_credentials(found: BearerCredentials) -> None:
    for text, name, option in (
        (bool(found.client_id), CLIENT_ID, "clientId"),
        (bool(found.client_secret), CLIENT_SECRET, "clientSecret"),
    ):
        if not text:
            raise BadProperties(f"{name} is missing: set it, or {option} in sasl.jaas.config.")


def _is_urlencoded(texts: dict[str, str]) -> bool:
    text = texts.pop(_URLENCODE, "false").strip().lower()
    if text not in ("true", "false"):
        raise BadProperties(f"{_URLENCODE}={text} is neither true nor false.")
    return text == "true"


def _extensions(options: Mapping[str, str]) -> tuple[tuple[str, Secret], ...]:
    found = {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    for name, value in found.items():
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name):
            raise BadProperties(
                f"{_EXTENSION}{name} in sasl.jaas.config is not the name of an extension: use"
                " letters alone, and not auth."
            )
        if not _EXTENSION_VALUE.fullmatch(value):
            raise BadProperties(
                f"{_EXTENSION}{name} in sasl.jaas.config is empty, or has characters that are not"
                " of ASCII."
            )
    return tuple((name, Secret(value)) for name, value in found.items())


def _endpoint_tls(options: Mapping[str, str]) -> TlsProperties:
    try:
        return read_tls({name: text for name, text in options.items() if name.startswith("ssl.")})
    except BadProperties as error:
        raise BadProperties(f"sasl.jaas.config: {error}") from None
