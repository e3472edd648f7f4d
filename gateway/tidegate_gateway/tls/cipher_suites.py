"""Translates the suites in `ssl.cipher.suites`, with Java's and IANA's names, for OpenSSL. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidegate_runtime.settings_texts import SettingsError

TLS13_SUITES: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
"""All of OpenSSL's; Python can neither order them nor leave one out."""

_SHAPE: Final = re.compile(
    r"TLS_(?P<exchange>(?:ECDHE|DHE)_(?:RSA|ECDSA)|RSA)_WITH_"
    r"(?P<cipher>AES_(?:128|256)_(?:GCM|CBC)|CHACHA20_POLY1305)_(?P<digest>SHA(?:256|384)?)"
)
_CIPHERS: Final = {
    "AES_128_GCM": "AES128-GCM",
    "AES_256_GCM": "AES256-GCM",
    "AES_128_CBC": "AES128",
    "AES_256_CBC": "AES256",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
}


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """tls13: names of suites of TLS 1.3; tls12: of TLS 1.2, in OpenSSL's names.

    One of the two may be empty, but not both.
    """

    tls13: tuple[str, ...]
    tls12: tuple[str, ...]


def read_cipher_suites(names: Sequence[str]) -> CipherSuites:
    """Read the names of a setting.

    Raises:
      SettingsError: names a suite that is not served.
    """
    tls13 = tuple(each for each in names if each in TLS13_SUITES)
    return CipherSuites(tls13, tuple(_openssl_name(each) for each in names if each not in tls13))


def _openssl_name(name: str) -> str:
    found = _SHAPE.fullmatch(name)
    if found is None:
        raise SettingsError(
            f"ssl.cipher.suites: {name[:80]} is not served; name suites of TLS 1.3, or of TLS 1.2"
            " with AES or ChaCha20 such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        )
    cipher = _CIPHERS[found["cipher"]]
    parts = [found["exchange"].replace("_", "-"), cipher]
    if parts[0] == "RSA":
        del parts[0]
    if found["cipher"] != "CHACHA20_POLY1305":
        parts.append(found["digest"])
    return "-".join(parts)
