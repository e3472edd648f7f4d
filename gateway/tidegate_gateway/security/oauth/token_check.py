"""Checks the token of a client: a JWT (RFC 7519), signed by a key of the provider.  Pure.

The rules are Kafka's (BrokerJwtValidator, KIP-768), with two additions: the token's issuer must be
the configured one, and HMAC signatures are refused.  As in Kafka, a token that names an audience is
refused if no audience is configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple
from warnings import catch_warnings

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.registry import Header

from .key_set import ALGORITHMS, Keys


class BadToken(Exception):
    """The token is refused.

    The sentence is for the gateway's log, and quotes nothing of the token.
    """


class UnknownKey(BadToken):
    """The gateway has no such key of the provider. key_id: None if the token names no key."""

    def __init__(self, key_id: str | None) -> None:
        super().__init__("its key is none of the provider's")
        self.key_id = key_id


@dataclass(frozen=True, slots=True)
class WantedClaims:
    """The claims that a token must have.

    audiences: the token must name one of them; if the list is empty, the token must name no
    audience. skew_seconds: how far the clocks of provider and gateway may differ.
    """

    issuer: str
    audiences: frozenset[str] = frozenset()
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    skew_seconds: int = 30


class BearerToken(NamedTuple):
    """The claims of a token.  expires_at: seconds since 1970."""

    subject: str
    expires_at: float


MAX_KEY_ID: Final = 512
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999


class _Registry(jws.JWSRegistry):
    # Enough for headers with certificate chains, and for signatures of long RSA keys.
    max_header_length = 16 << 10
    max_signature_length = 4096


_REGISTRY: Final = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def check_token(text: str, keys: Keys, wanted: WantedClaims, now: float) -> BearerToken:
    """Check a token; return its claims.

    Args:
      now: seconds since 1970.

    Raises:
      BadToken, UnknownKey: see there.
    """
    claims = _claims(_verified(text, keys))
    _check_times(claims, wanted.skew_seconds, now)
    if claims.get("iss") != wanted.issuer:
        raise BadToken("its issuer (iss) is not sasl.oauthbearer.expected.issuer")
    _check_audience(claims.get("aud"), wanted.audiences)
    _check_scopes(claims.get(wanted.scope_claim), wanted.scope_claim)
    subject = claims.get(wanted.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise BadToken(f"it names no subject in {wanted.subject_claim}")
    return BearerToken(subject.strip(), _seconds(claims, "exp"))


def _verified(text: str, keys: Keys) -> bytes:
    """Return the payload of a token that was signed by the key that it names."""
    try:
        token = jws.extract_compact(text.encode(), registry=_REGISTRY)
        header: Header = token.headers()
        algorithm, key_id = header["alg"], header.get("kid")
        if algorithm not in ALGORITHMS:
            raise BadToken("its algorithm is not accepted")
        is_id = key_id is None or (isinstance(key_id, str) and len(key_id) <= MAX_KEY_ID)
        if "crit" in header or not is_id:
            raise BadToken("its header asks for what is not known here")
        key = keys.find(key_id, algorithm)
        if key is None:
            raise UnknownKey(key_id)
        # The library warns about EdDSA, since this name does not tell the curve; here the key tells
        # it.
        with catch_warnings(action="ignore", category=SecurityWarning):
            is_signed = jws.validate_compact(token, key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError, RecursionError):
        raise BadToken("it is no signed token (JWT) of its key") from None
    if not is_signed:
        raise BadToken("its signature is wrong")
    return token.payload


def _claims(payload: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadToken("its claims are no JSON object") from None


def _check_times(claims: Mapping[str, Any], skew_seconds: int, now: float) -> None:
    _seconds(claims, "iat")
    if now - skew_seconds >= _seconds(claims, "exp"):
        raise BadToken("it has expired (exp)")
    if "nbf" in claims and now + skew_seconds < _seconds(claims, "nbf"):
        raise BadToken("it is not valid yet (nbf)")


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if isfinite(value) and 0 <= value <= _LAST_SECOND:
                return float(value)
    raise BadToken(f"it has no time in {name}")


def _check_audience(said: Any, expected: frozenset[str]) -> None:
    """Check the audience, which is one text or a list of texts; see WantedClaims."""
    if said is None and not expected:
        return
    if expected.isdisjoint(_listed(said)):
        raise BadToken("its audience (aud) is not in sasl.oauthbearer.expected.audience")


def _check_scopes(said: Any, name: str) -> None:
    """Check the form of the scopes: Kafka does not use scopes, but refuses malformed ones."""
    scopes = [each.strip() for each in _listed(said)]
    if not all(scopes) or len(set(scopes)) < len(scopes):
        raise BadToken(f"its scopes in {name} are empty or doubled")


def _listed(said: Any) -> list[str]:
    """Return the texts of a claim that is a text or a list of texts; [] for any other value."""
    try:
        found = msgspec.convert(said, str | list[str])
    except msgspec.ValidationError:
        return []
    return [found] if isinstance(found, str) else found
