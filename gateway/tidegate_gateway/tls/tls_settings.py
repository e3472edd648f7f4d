"""The ssl.* settings of a listener; names with `listener.name.<listener>.` take precedence.  Pure.

A gateway cannot run the Java classes that some of Kafka's settings name.  It refuses such a
setting by name, since otherwise the listener would not be the one that the operator described.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.listener_configs import listener_config
from tidegate_coordination.configs.validation import split_list
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import SettingsError

from ..settings.broker_settings import BrokerSettings
from ..settings.listener_settings import PROTOCOLS, security_protocol
from .cipher_suites import CipherSuites, read_cipher_suites
from .principal_rules import PrincipalRules, read_principal_rules

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CONTEXTS: Final = ("TLS", *_VERSIONS)  # Java's names of contexts; each allows all versions
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# OpenSSL's first choice: Python cannot exclude suites of TLS 1.3 for outgoing connections.
_EVERYONES: Final = "TLS_AES_256_GCM_SHA384"
_BUILDER: Final = "principal.builder.class"
_CLASSES: Final = {
    "ssl.engine.factory.class": "name stores in ssl.keystore.location and ssl.truststore.location",
    "ssl.provider": "TLS is OpenSSL's",
    "security.providers": "TLS is OpenSSL's",
}


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where a store is: a path, or its text in PEM. password: None if no password is set."""

    path: Path | None = None
    text: Secret = field(default_factory=Secret)
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How a listener speaks TLS.

    keystore: its text holds key and certificates.  truststore: None for the system's.  versions:
    lowest and highest.  suites: None for OpenSSL's choice.  is_auth_ignored: ssl.client.auth is
    set, but has no effect; see _client_auth().  has_sasl: the principal comes from SASL, not from
    the certificate.  checks_hosts: for outgoing connections, whether the server's certificate must
    name its host.
    """

    keystore: StoreSettings
    key_password: Secret | None
    truststore: StoreSettings | None
    client_auth: ssl.VerifyMode
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion]
    suites: CipherSuites | None
    rules: PrincipalRules
    may_change_name: bool
    may_change_alt_names: bool
    is_auth_ignored: bool
    has_sasl: bool
    checks_hosts: bool = True


def refuse_principal_builder(settings: BrokerSettings, listener: str) -> None:
    """Refuse a principal builder class: without it, clients would have other principals than meant.

    Raises:
      SettingsError: a class is set.
    """
    found = settings.listener_text(listener, _BUILDER)
    if found not in ("", BROKER_CONFIGS[_BUILDER].default):
        raise SettingsError(
            f"listener {listener}: {_BUILDER} names a Java class, which a gateway cannot run:"
            " remove it; ssl.principal.mapping.rules makes principals of certificates"
        )


def tls_settings(settings: BrokerSettings, listener: str) -> TlsSettings:
    """Return the settings of a listener that speaks TLS.

    Raises:
      SettingsError: one is wrong, missing or not supported.
    """
    has_sasl = PROTOCOLS[security_protocol(settings, listener)].is_sasl
    return _read(settings, listener, has_sasl=has_sasl)


def inner_tls_settings(settings: BrokerSettings, name: str) -> TlsSettings:
    """Return the settings of an inner listener, with names such as listener.name.peer.ssl.*.

    Raises:
      SettingsError: one is wrong, missing or not supported.
    """
    found = _read(settings, name, has_sasl=False, is_inner=True)
    if found.client_auth is not ssl.CERT_NONE and found.truststore is None:
        raise SettingsError(
            f"listener {name}: ssl.client.auth needs a truststore of its own or ssl.truststore.*,"
            " since the system's authorities sign for anyone"
        )
    suites = found.suites
    if suites is not None and suites.tls13 and _EVERYONES not in suites.tls13:
        raise SettingsError(
            f"listener {name}: ssl.cipher.suites has suites of TLS 1.3 without {_EVERYONES}, which"
            " gateways negotiate with each other: add it"
        )
    return found


def server_only(keystore: StoreSettings) -> TlsSettings:
    """Return the settings of a server that is no gateway's listener.

    Its clients need no certificates.
    """
    return TlsSettings(
        keystore=keystore,
        key_password=keystore.password,
        truststore=None,
        client_auth=ssl.CERT_NONE,
        versions=(min(_VERSIONS.values()), max(_VERSIONS.values())),
        suites=None,
        rules=read_principal_rules("DEFAULT"),
        may_change_name=True,
        may_change_alt_names=True,
        is_auth_ignored=False,
        has_sasl=False,
    )


def _read(
    settings: BrokerSettings, listener: str, *, has_sasl: bool, is_inner: bool = False
) -> TlsSettings:
    try:
        return _Reading(settings, listener, has_sasl=has_sasl, is_inner=is_inner).tls_settings()
    except SettingsError as error:
        raise SettingsError(f"listener {listener}: {error}") from None


class _Reading:
    def __init__(
        self, settings: BrokerSettings, listener: str, *, has_sasl: bool, is_inner: bool
    ) -> None:
        self._is_inner = is_inner
        self._settings = settings
        self._listener = listener
        self._has_sasl = has_sasl
        self._text = partial(settings.listener_text, listener)
        self._secret = partial(settings.listener_secret, listener)

    def tls_settings(self) -> TlsSettings:
        for name, instead in _CLASSES.items():
            if self._text(name):
                raise SettingsError(
                    f"{name} names Java classes, which a gateway cannot run: remove it; {instead}"
                )
        names = split_list(self._text("ssl.cipher.suites"))
        suites = read_cipher_suites(names) if names else None
        client_auth, is_ignored = self._client_auth()
        return TlsSettings(
            keystore=self._keystore(),
            key_password=self._secret("ssl.key.password") or None,
            truststore=self._truststore(),
            client_auth=client_auth,
            versions=_narrowed(self._versions(), suites),
            suites=suites,
            rules=read_principal_rules(self._text("ssl.principal.mapping.rules")),
            may_change_name=self._bool("ssl.allow.dn.changes"),
            may_change_alt_names=self._bool("ssl.allow.san.changes"),
            is_auth_ignored=is_ignored,
            has_sasl=self._has_sasl,
            checks_hosts=self._text("ssl.endpoint.identification.algorithm") != "",
        )

    def _bool(self, name: str) -> bool:
        return self._text(name).lower() == "true"

    def _keystore(self) -> StoreSettings:
        key = self._secret("ssl.keystore.key")
        chain = self._secret("ssl.keystore.certificate.chain")
        if bool(chain) != bool(key):
            raise SettingsError(
                "ssl.keystore.key and ssl.keystore.certificate.chain belong together: set both"
            )
        text = Secret(f"{key.reveal()}\n{chain.reveal()}\n") if key else Secret()
        store = self._store("ssl.keystore", "key", text)
        if store is None:
            raise SettingsError(
                "ssl.keystore.location is not set: name the file that holds its key and"
                " certificate, in PEM, PKCS12 or JKS"
            )
        return store

    def _truststore(self) -> StoreSettings | None:
        text = self._secret("ssl.truststore.certificates")
        return self._store("ssl.truststore", "certificates", text)

    def _store(self, name: str, inline: str, text: Secret) -> StoreSettings | None:
        path = self._text(f"{name}.location")
        if path and text:
            raise SettingsError(f"set {name}.location or {name}.{inline}, not both")
        if not path and not text:
            return None
        password = self._secret(f"{name}.password") or None
        return StoreSettings(Path(path) if path else None, text, password)

    def _client_auth(self) -> tuple[ssl.VerifyMode, bool]:
        """Return whether a client must show a certificate, and whether the setting is ignored.

        On a listener with SASL, Kafka uses only the listener's own ssl.client.auth (KIP-684).  The
        inner listeners do the same.  Otherwise a client of Kafka could act as an operator with its
        certificate.
        """
        name = "ssl.client.auth"
        wanted = _CLIENT_AUTH[self._text(name) or "none"]
        is_own = listener_config(self._listener, name) in self._settings.static
        if self._is_inner:
            return wanted if is_own else ssl.CERT_NONE, False
        if self._has_sasl and not is_own:
            return ssl.CERT_NONE, wanted is not ssl.CERT_NONE
        return wanted, False

    def _versions(self) -> Sequence[ssl.TLSVersion]:
        names = split_list(self._text("ssl.enabled.protocols")) or tuple(_VERSIONS)
        for each in names:
            if each not in _VERSIONS:
                raise SettingsError(
                    f"ssl.enabled.protocols: {each[:40]} is not served; {' and '.join(_VERSIONS)}"
                    " are"
                )
        if (name := self._text("ssl.protocol")) not in _CONTEXTS:
            raise SettingsError(f"ssl.protocol={name[:40]} is not served; set {_CONTEXTS[-1]}")
        return [_VERSIONS[each] for each in names]


def _narrowed(
    versions: Sequence[ssl.TLSVersion], suites: CipherSuites | None
) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """Return the lowest and the highest version of which a suite is allowed."""
    if suites is not None:
        without = set[ssl.TLSVersion]()
        if not suites.tls13:
            without.add(ssl.TLSVersion.TLSv1_3)
        if not suites.tls12:
            without.add(ssl.TLSVersion.TLSv1_2)
        versions = [each for each in versions if each not in without]
    if not versions:
        raise SettingsError("ssl.cipher.suites has no suite of ssl.enabled.protocols")
    return min(versions), max(versions)
