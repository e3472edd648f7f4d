"""Security holes of tokens: forged signatures, and false sources of keys."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final
from warnings import catch_warnings

import pytest
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import OctKey, RSAKey

from tests.security.known_holes.hole import Hole
from tests.worlds.security.sasl_client import LISTENER, oauth_settings
from tests.worlds.security.token_provider import NOW, Provider, key_of, signed
from tidegate_gateway.security.oauth import oauth_settings as oauth
from tidegate_gateway.security.oauth import token_check
from tidegate_gateway.security.oauth.key_set import ALGORITHMS, KeySet, read_key_set
from tidegate_gateway.security.oauth.token_check import BadToken, WantedClaims, check_token
from tidegate_gateway.security.sasl.gates import check_sasl
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.settings_texts import SettingsError

WANTED: Final = WantedClaims("https://provider.example")


def _segment(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _hmac_key(key: RSAKey) -> OctKey:
    with catch_warnings(action="ignore", category=SecurityWarning):
        return OctKey.import_key(urlsafe_b64encode(key.as_pem(private=False)).decode())


def _forged(provider: Provider) -> dict[str, str]:
    """Return tokens for the administrator that the provider did not sign."""
    [own] = provider.keys
    assert isinstance(own, RSAKey)
    claims, stranger = provider.claims(sub="admin"), key_of("RS256", "stranger")
    assert isinstance(stranger, RSAKey)
    head, _, signature = provider.token(algorithm="RS256").split(".")
    named = {"alg": "RS256", "kid": own.kid}
    embedded = named | {"jwk": stranger.as_dict(private=False), "jku": "https://evil.example/"}
    return {
        "unsigned": f"{_segment({'alg': 'none'})}.{_segment(claims)}.",
        "unsigned, other letters": f"{_segment({'alg': 'nOnE'})}.{_segment(claims)}.",
        "with another's claims": f"{head}.{_segment(claims)}.{signature}",
        "without its signature": f"{head}.{_segment(claims)}.",
        "of a stranger": signed(named, claims, stranger),
        "with its own key": signed(embedded, claims, stranger),
        "by the public key as a password": signed(
            {"alg": "HS256", "kid": own.kid}, claims, _hmac_key(own)
        ),
    }


async def only_the_provider_signs_tokens() -> None:
    """Refuse forged tokens, and the provider's if expired, or of another issuer or audience."""
    provider = Provider(key_of("RS256"))
    keys = read_key_set(provider.key_set())
    for claims in ({"iss": "https://other.example"}, {"exp": NOW - 60}, {"aud": "another"}):
        with pytest.raises(BadToken):
            check_token(provider.token(algorithm="RS256", **claims), keys, WANTED, NOW)
    taken = [what for what, token in _forged(provider).items() if _is_taken(token, keys)]
    assert taken == []


def _is_taken(token: str, keys: KeySet) -> bool:
    try:
        check_token(token, keys, WANTED, NOW)
    except BadToken:
        return False
    return True


def believes_all_signatures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(jws, "validate_compact", lambda *_, **__: True)


def takes_unsigned_tokens(patch: pytest.MonkeyPatch) -> None:
    real = token_check._verified

    def verified(text: str, keys: KeySet) -> bytes:
        head, body, _ = (urlsafe_b64decode(each + "==") for each in text.split("."))
        return body if json.loads(head)["alg"].lower() == "none" else real(text, keys)

    patch.setattr(token_check, "_verified", verified)


def believes_the_key_in_the_token(patch: pytest.MonkeyPatch) -> None:
    real = token_check._verified

    def verified(text: str, keys: KeySet) -> bytes:
        head = json.loads(urlsafe_b64decode(text.partition(".")[0] + "=="))
        own = KeySet([RSAKey.import_key(head["jwk"] | {"kid": head["kid"]})])
        return real(text, own) if "jwk" in head else real(text, keys)

    def lenient(text: str, keys: KeySet) -> bytes:
        try:
            return verified(text, keys)
        except KeyError:
            return real(text, keys)

    patch.setattr(token_check, "_verified", lenient)


def takes_public_keys_as_passwords(patch: pytest.MonkeyPatch) -> None:
    real, names = KeySet.find, (*ALGORITHMS, "HS256")

    def find(self: KeySet, key_id: str | None, algorithm: str) -> Any:
        if algorithm != "HS256":
            return real(self, key_id, algorithm)
        [key] = self._keys
        assert isinstance(key, RSAKey)
        return _hmac_key(key)

    patch.setattr(KeySet, "find", find)
    patch.setattr(token_check, "ALGORITHMS", names)
    registry = token_check._Registry(algorithms=names, strict_check_header=False)
    patch.setattr(token_check, "_REGISTRY", registry)


async def tokens_need_a_place_of_keys() -> None:
    """A gateway that knows no keys does not start."""
    for more in ({"jwks_endpoint_url": ""}, {"expected_issuer": ""}):
        with pytest.raises(SettingsError):
            check_sasl(BrokerSettings(oauth_settings(**more)), [LISTENER])


async def keys_come_from_few_kinds_of_places() -> None:
    """Refuse URLs with a scheme that reads other things, and URLs with a user."""
    for url in (
        *("jar:file:///keys.jar!/keys", "netdoc:///etc/passwd", "ftp://provider.example/keys"),
        *("gopher://provider.example/", "data:application/json,{}", "https://user:x@provider/keys"),
    ):
        with pytest.raises(SettingsError):
            check_sasl(BrokerSettings(oauth_settings(jwks_endpoint_url=url)), [LISTENER])


def checks_no_url(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(oauth, "_check_url", lambda url, name: None)


def needs_no_issuer(patch: pytest.MonkeyPatch) -> None:
    real = BrokerSettings.listener_text

    def listener_text(self: BrokerSettings, listener: str, name: str, mechanism: str = "") -> str:
        text = real(self, listener, name, mechanism)
        return text or "any" if name == oauth._ISSUER else text

    patch.setattr(BrokerSettings, "listener_text", listener_text)


HOLES: Final = (
    Hole("CVE-2025-27817", keys_come_from_few_kinds_of_places, (checks_no_url,)),
    Hole(
        "CVE-2026-33557",
        only_the_provider_signs_tokens,
        (
            believes_all_signatures,
            takes_unsigned_tokens,
            believes_the_key_in_the_token,
            takes_public_keys_as_passwords,
        ),
    ),
    Hole("CVE-2026-110985", tokens_need_a_place_of_keys, (checks_no_url, needs_no_issuer)),
)
