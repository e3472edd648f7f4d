"""How TLS connections are made, as Kafka's client properties say it (ssl.*).  Pure: no file is
opened.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from tidegate_runtime.secret import Secret

from ..errors import BadProperties

_STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or keys: the path of a store, or the text itself in PEM.

    key and text may be secret.  key: "" if the certificates' text or file holds the key, too.
    password: the password of a store that is not in PEM.
    """

    path: str = ""
    text: Secret = field(default_factory=Secret)
    key: Secret = field(default_factory=Secret)
    password: Secret = field(default_factory=Secret)


@dataclass(frozen=True, slots=True)
class TlsProperties:
    """How TLS connections are made.

    Attributes:
      truststore: the trusted certificates; None for those of the system.
      keystore: the client's certificate and key; None if the client has none.
      is_host_checked: whether the server's certificate must name its host.
    """

    truststore: Pem | None = None
    keystore: Pem | None = None
    key_password: Secret = field(default_factory=Secret)
    is_host_checked: bool = True


def read_tls(texts: dict[str, str]) -> TlsProperties:
    """Read the properties, and remove from the texts those that have an effect.

    Raises:
      BadProperties: one is wrong or not supported.
    """
    return _Reading(texts).tls()


class _Reading:
    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def _take(self, name: str) -> str:
        return self._texts.pop(name, "")

    def _take_secret(self, name: str) -> Secret:
        return Secret(self._take(name))

    def tls(self) -> TlsProperties:
        algorithm = self._texts.pop("ssl.endpoint.identification.algorithm", "https")
        if algorithm.lower() not in ("https", ""):
            raise BadProperties(
                f"ssl.endpoint.identification.algorithm={algorithm} is not supported: set it to"
                " https, or to nothing to accept a certificate of any host."
            )
        truststore, keystore = self._truststore(), self._keystore()
        password = self._take_secret("ssl.key.password")
        return TlsProperties(truststore, keystore, password, bool(algorithm))

    def _truststore(self) -> Pem | None:
        text = self._take_secret("ssl.truststore.certificates")
        pem = Pem(self._take("ssl.truststore.location"), text)
        pem = self._checked("ssl.truststore", pem, "certificates")
        return pem if pem.path or pem.text else None

    def _keystore(self) -> Pem | None:
        pem = Pem(
            self._take("ssl.keystore.location"),
            self._take_secret("ssl.keystore.certificate.chain"),
            self._take_secret("ssl.keystore.key"),
        )
        pem = self._checked("ssl.keystore", pem, "key")
        if bool(pem.text) != bool(pem.key):
            raise BadProperties(
                "ssl.keystore.key and ssl.keystore.certificate.chain belong together: set both, or"
                " ssl.keystore.location."
            )
        return pem if pem.path or pem.text else None

    def _checked(self, store: str, pem: Pem, inline: str) -> Pem:
        """Return the store with its password; its content tells the type, as at listeners."""
        kind, password = self._take(f"{store}.type"), self._take_secret(f"{store}.password")
        if pem.path and kind not in ("", *_STORE_TYPES):
            raise BadProperties(
                f"{store}.type={kind} is not supported: use {one_of(_STORE_TYPES)}."
            )
        if (pem.text or pem.key) and kind != "PEM":
            raise BadProperties(f"{store}.{inline} is text in PEM: set {store}.type=PEM.")
        if pem.path and (pem.text or pem.key):
            raise BadProperties(f"{store}.location excludes {store}.{inline}: set one of them.")
        if password and kind == "PEM":
            raise BadProperties(
                f"{store}.password has no meaning for PEM: remove it; the password of a key is"
                " ssl.key.password."
            )
        return replace(pem, password=password)


def one_of(names: tuple[str, ...]) -> str:
    """Return names as alternatives in a sentence."""
    *others, last = names
    return f"{', '.join(others)} or {last}"
