"""The properties file of a Kafka client, as a link reads it.  Pure: no file is opened.

The notation is that of java.util.Properties; names, defaults and meanings are Kafka's.  The Java
client ignores a name that it does not know, and warns; so `unknown` lists those names.  A property
that this client knows and cannot obey is an error: without it, the connection would differ from the
operator's description.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from tidegate_runtime.addresses import host_port, url_host
from tidegate_runtime.settings_texts import BadSource, SettingsError, read_properties

from ..errors import BadProperties
from .bearer_credentials import OAUTHBEARER, BearerCredentials, read_bearer
from .jaas import PASSWORD_MECHANISMS, SaslCredentials, read_credentials
from .tls import TlsProperties, one_of, read_tls

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_CLIENT_ID: Final = "tidegate-link"
_INT_MAX: Final = (1 << 31) - 1

_OF_ITSELF: Final = "use SCRAM or PLAIN with a user of the cluster, or OAUTHBEARER"
_HANDLER: Final = "sasl.login.callback.handler.class"
SASL_MECHANISMS: Final = (*PASSWORD_MECHANISMS, OAUTHBEARER)
# Properties that would change how connections are made, and that this client cannot obey.
_CANNOT: Final = {
    "config.providers": "write the values into the file",
    "ssl.engine.factory.class": "name PEM files in ssl.truststore.location and"
    " ssl.keystore.location",
    "security.providers": "use PEM files and a mechanism that needs no provider",
    "sasl.client.callback.handler.class": _OF_ITSELF,
    "sasl.login.class": _OF_ITSELF,
}


@dataclass(frozen=True, slots=True)
class Address:
    """A broker's host and port.  host: without [] for IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{url_host(self.host)}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """All that is needed to connect to a cluster.

    Attributes:
      sasl: None without SASL.
      tls: None without TLS.
      unknown: names of properties that have no effect, for a warning.
    """

    bootstrap_servers: tuple[Address, ...]
    client_id: str = DEFAULT_CLIENT_ID
    sasl: SaslCredentials | BearerCredentials | None = None
    tls: TlsProperties | None = None
    request_timeout_seconds: float = 30.0
    connection_setup_timeout_seconds: float = 10.0
    unknown: tuple[str, ...] = ()


_KNOWN: Final = (
    "bootstrap.servers",
    "client.id",
    "connections.max.idle.ms",
    "request.timeout.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
_SHOWN: Final = 10


def without_effect(unknown: Sequence[str]) -> str:
    """Return a line about properties that have no effect; "" for none."""
    if not unknown:
        return ""
    shown = ", ".join(map(_with_advice, unknown[:_SHOWN]))
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    return f"properties without effect: {shown}{more}"


def _with_advice(name: str) -> str:
    near = get_close_matches(name, _KNOWN, 1, 0.85)
    return f"{name} (did you mean {near[0]}?)" if near else name


def read_client_properties(content: str, source: str) -> ClientProperties:
    r"""Read the text of a properties file.

    Args:
      source: the file's name, for errors.

    Raises:
      BadProperties: a property is wrong, missing or not supported.
    """
    try:
        texts = read_properties(content, source)
    except BadSource:  # its text quotes the file, maybe a password
        raise BadProperties(
            rf"{source} has an incomplete \u escape: write \\ for a backslash."
        ) from None
    return _Reading(texts, source).client_properties()


class _Reading:
    """The properties that are not yet used."""

    def __init__(self, texts: Mapping[str, str], source: str) -> None:
        self._texts = dict(texts)
        self._source = source

    def client_properties(self) -> ClientProperties:
        for name, advice in _CANNOT.items():
            if self._take(name):
                raise self._bad(f"{name} is not supported: {advice}.")
        protocol = self._security_protocol()
        sasl = self._sasl(is_used=protocol.startswith("SASL"))
        tls = self._tls(is_used=protocol.endswith("SSL"))
        return ClientProperties(
            self._bootstrap_servers(),
            self._take("client.id") or DEFAULT_CLIENT_ID,
            sasl,
            tls,
            self._seconds("request.timeout.ms", 30_000),
            self._seconds("socket.connection.setup.timeout.ms", 10_000),
            tuple(sorted(self._texts)),
        )

    def _take(self, name: str) -> str:
        return self._texts.pop(name, "")

    def _bad(self, text: str) -> BadProperties:
        return BadProperties(f"{self._source}: {text}")

    def _bootstrap_servers(self) -> tuple[Address, ...]:
        items = [each.strip() for each in self._take("bootstrap.servers").split(",")]
        if not any(items):
            raise self._bad("bootstrap.servers is missing: name brokers, such as broker-1:9092.")
        return tuple(self._address(each) for each in items if each)

    def _address(self, text: str) -> Address:
        try:
            host, port = host_port("bootstrap.servers", text)
        except SettingsError:
            host, port = "", 0
        if not host or not port:
            raise self._bad(f"bootstrap.servers={text} is not host:port, such as broker-1:9092.")
        return Address(host, port)

    def _security_protocol(self) -> str:
        found = self._take("security.protocol") or "PLAINTEXT"
        if found.upper() not in SECURITY_PROTOCOLS:
            raise self._bad(
                f"security.protocol={found} is unknown: set it to {one_of(SECURITY_PROTOCOLS)}."
            )
        return found.upper()

    def _seconds(self, name: str, default_ms: int) -> float:
        text = self._take(name)
        if not text:
            return default_ms / 1000
        if not text.isdecimal() or not 0 < int(text) <= _INT_MAX:
            raise self._bad(f"{name}={text} is not a number of milliseconds above 0.")
        return int(text) / 1000

    # -- SASL -------------------------------------------------------------------------------------

    def _sasl(self, *, is_used: bool) -> SaslCredentials | BearerCredentials | None:
        mechanism, jaas = self._take("sasl.mechanism"), self._take("sasl.jaas.config")
        if mechanism != OAUTHBEARER and self._take(_HANDLER):
            raise self._bad(f"{_HANDLER} is not supported: {_OF_ITSELF}.")
        if not is_used:
            return None
        if mechanism not in SASL_MECHANISMS:
            raise self._bad(_no_mechanism(mechanism))
        try:
            if mechanism == OAUTHBEARER:
                return read_bearer(self._texts, jaas)
            return read_credentials(mechanism, jaas)
        except BadProperties as error:
            raise self._bad(str(error)) from None

    # -- TLS --------------------------------------------------------------------------------------

    def _tls(self, *, is_used: bool) -> TlsProperties | None:
        if not is_used:
            for name in [each for each in self._texts if each.startswith("ssl.")]:
                del self._texts[name]
            return None
        try:
            return read_tls(self._texts)
        except BadProperties as error:
            raise self._bad(str(error)) from None


def _no_mechanism(name: str) -> str:
    """Return advice for a value of sasl.mechanism that links do not support."""
    if name == "GSSAPI":
        return (
            "sasl.mechanism=GSSAPI (Kerberos) is not supported: add a listener with"
            f" {one_of(SASL_MECHANISMS)} at the source."
        )
    shown = f"sasl.mechanism={name} is not supported" if name else ""
    return (
        f"{shown or 'sasl.mechanism is missing (Kafka takes GSSAPI, not supported here)'}: set it"
        f" to {one_of(SASL_MECHANISMS)}."
    )
