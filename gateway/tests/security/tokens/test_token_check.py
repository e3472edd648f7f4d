"""Tokens of identity providers: which are accepted, and why others are refused."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from joserfc.errors import SecurityWarning
from joserfc.jwk import OKPKey, RSAKey

from tests.worlds.security.token_provider import NOW, Provider, key_of, signed
from tidegate_gateway.security.oauth.key_set import ALGORITHMS, BadKeySet, read_key_set
from tidegate_gateway.security.oauth.token_check import (
    BadToken,
    BearerToken,
    UnknownKey,
    WantedClaims,
    check_token,
)

WANTED = WantedClaims("https://provider.example")
OF_AUDIENCE = WantedClaims(WANTED.issuer, frozenset({"tidegate", "kafka"}))


def check(
    token: str, provider: Provider, wanted: WantedClaims = WANTED, now: float = NOW
) -> BearerToken:
    return check_token(token, read_key_set(provider.key_set()), wanted, now)


def segment(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_good_token_tells_its_user_and_its_end(algorithm: str) -> None:
    provider = Provider(key_of(algorithm))
    assert check(provider.token(algorithm=algorithm), provider) == ("alice", NOW + 3600)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": None}, "no time in exp"),
        ({"exp": "soon"}, "no time in exp"),
        ({"exp": True}, "no time in exp"),
        ({"exp": -5}, "no time in exp"),
        ({"exp": 10**400}, "is no JSON object|no time in exp"),
        ({"exp": 1e16}, "no time in exp"),
        ({"exp": NOW - 30}, "has expired"),
        ({"iat": None}, "no time in iat"),
        ({"iat": [1]}, "no time in iat"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"nbf": "later"}, "no time in nbf"),
        ({"iss": "https://other.example"}, "its issuer"),
        ({"iss": None}, "its issuer"),
        ({"iss": ["https://provider.example"]}, "its issuer"),
        ({"sub": None}, "no subject in sub"),
        ({"sub": "  "}, "no subject in sub"),
        ({"sub": 7}, "no subject in sub"),
        ({"aud": "other"}, "its audience"),
        ({"aud": []}, "its audience"),
        ({"scope": ""}, "its scopes"),
        ({"scope": ["a", " a"]}, "its scopes"),
    ],
)
def test_claims_that_are_refused(claims: dict[str, Any], said: str) -> None:
    provider = Provider()
    with pytest.raises(BadToken, match=said):
        check(provider.token(**claims), provider)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - 29},
        {"exp": NOW + 0.5},
        {"nbf": NOW + 30},
        {"scope": "read write"},
        {"scope": ["read", "write"]},
        {"scope": 5},
        {"sub": " alice "},
    ],
)
def test_claims_that_are_taken(claims: dict[str, Any]) -> None:
    provider = Provider()
    assert check(provider.token(**claims), provider).subject == "alice"


@pytest.mark.parametrize("audience", ["kafka", ["other", "tidegate"]])
def test_one_audience_is_enough(audience: Any) -> None:
    provider = Provider()
    assert check(provider.token(aud=audience), provider, OF_AUDIENCE).subject == "alice"


@pytest.mark.parametrize("audience", [None, "kafk", "kafka tidegate", ["other"], {"kafka": 1}, 5])
def test_a_token_for_others_is_refused(audience: Any) -> None:
    provider = Provider()
    with pytest.raises(BadToken, match="its audience"):
        check(provider.token(aud=audience), provider, OF_AUDIENCE)


def test_the_claims_with_user_and_scopes_are_settings() -> None:
    provider = Provider()
    wanted = WantedClaims(WANTED.issuer, subject_claim="name", scope_claim="scp")
    assert check(provider.token(sub=None, name="bob"), provider, wanted).subject == "bob"
    with pytest.raises(BadToken, match="its scopes in scp"):
        check(provider.token(name="bob", scp=""), provider, wanted)


def test_a_token_of_an_unknown_key_names_it() -> None:
    provider = Provider(key_of("ES256", "new"))
    token = provider.token()
    provider.keys = [key_of("ES256", "old")]
    with pytest.raises(UnknownKey) as refused:
        check(token, provider)
    assert refused.value.key_id == "new"


def test_a_token_of_another_key_with_the_same_id_is_refused() -> None:
    provider = Provider()
    other = signed({"alg": "ES256", "kid": "one"}, provider.claims(), key_of("ES256", "other"))
    with pytest.raises(BadToken, match="its signature is wrong"):
        check(other, provider)


def test_a_token_that_names_no_key_is_of_the_first_that_fits() -> None:
    provider = Provider(key_of("RS256"), key_of("ES256"), key_of("ES256", "other"))
    first, second = provider.keys[1], provider.keys[2]
    assert check(signed({"alg": "ES256"}, provider.claims(), first), provider).subject == "alice"
    with pytest.raises(BadToken, match="its signature"):
        check(signed({"alg": "ES256"}, provider.claims(), second), provider)


def test_what_a_key_set_holds_decides_the_algorithm() -> None:
    """Otherwise anyone could make an HMAC whose secret is the provider's public key."""
    provider = Provider(key_of("RS256"))
    public = provider.keys[0].as_dict(private=False)
    for algorithm in ("HS256", "none"):
        header = {"alg": algorithm, "kid": public["kid"]}
        forged = f"{segment(header)}.{segment(provider.claims())}.{segment('x')}"
        with pytest.raises(BadToken, match="algorithm is not accepted"):
            check(forged, provider)
    provider.keys.append(key_of("HS256", "shared"))
    with pytest.raises(BadToken, match="algorithm is not accepted"):
        check(provider.token(provider.keys[1], "HS256"), provider)
    with pytest.raises(UnknownKey):  # a key of EC does not check a token whose header names RSA
        check(provider.token(algorithm="RS256"), Provider(key_of("ES256")))


def test_a_key_for_one_algorithm_is_not_used_for_another() -> None:
    data = key_of("RS256", "named").as_dict(private=True) | {"alg": "RS256"}
    provider = Provider(RSAKey.import_key(data))
    assert check(provider.token(algorithm="RS256"), provider).subject == "alice"
    plain = RSAKey.import_key({name: each for name, each in data.items() if name != "alg"})
    with pytest.raises(UnknownKey):
        check(provider.token(plain, "PS256"), provider)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "..",
        f"{segment({'alg': 'ES256', 'kid': 'one'})}..",
        f"{segment({'alg': 'ES256', 'kid': ['one']})}.e30.AA",
        f"{segment({'alg': ['ES256'], 'kid': 'one'})}.e30.AA",
        f"{segment({'alg': 5})}.e30.AA",
        f"{segment([1])}.e30.AA",
        f"{segment('alg')}.e30.AA",
        f"{segment({'alg': 'ES256', 'kid': 'one'})}.e30.AA",
        f"{segment({'alg': 'ES256', 'kid': 'one', 'crit': ['b64'], 'b64': False})}.e30.AA",
        f"{'W1tb' * 4000}.e30.AA",
        f"{'A' * 20_000}.e30.AA",
        f"{segment({'alg': 'ES256', 'kid': 'k' * 513})}.e30.AA",
    ],
)
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(BadToken) as refused:
        check(token, Provider())
    assert not isinstance(refused.value, UnknownKey)


def test_a_critical_header_is_not_ignored() -> None:
    provider = Provider()
    key = provider.keys[0]
    header = {"alg": "ES256", "kid": "one", "crit": ["jku"], "jku": "https://provider.example"}
    with pytest.raises(BadToken, match="asks for what is not known"):
        check(signed(header, provider.claims(), key), provider)


@pytest.mark.parametrize(
    "claims", [b"[1]", b"{", b"\xff", b'{"\xff": 1}', b'{"exp": NaN}', b"[" * 50_000]
)
def test_claims_that_cannot_be_read(claims: bytes) -> None:
    provider = Provider()
    with pytest.raises(BadToken, match="no JSON object"):
        check(signed({"alg": "ES256", "kid": "one"}, claims, provider.keys[0]), provider)


def test_headers_with_certificates_and_unknown_names_are_taken() -> None:
    provider = Provider()
    header = {"alg": "ES256", "kid": "one", "typ": "at+jwt", "x5c": ["A" * 4000], "tenant": 1}
    assert check(signed(header, provider.claims(), provider.keys[0]), provider).subject == "alice"


# -- key sets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [5]}', b"\xff", b'{"keys":[{"\x97"']
)
def test_what_is_no_key_set(text: bytes) -> None:
    with pytest.raises(BadKeySet, match='no JSON object with "keys"'):
        read_key_set(text)


def test_keys_that_sign_nothing_are_left_out() -> None:
    def row(algorithm: str, **more: Any) -> dict[str, Any]:
        return key_of(algorithm).as_dict(private=False) | more

    with pytest.warns(SecurityWarning, match="Key size"):
        small: Any = RSAKey.generate_key(1024).as_dict(private=False)
    useless = [
        {"kty": "new"},
        {"kty": 5},
        {"kty": "EC"},
        {"kty": "oct", "k": "AAAA"},
        row("RS256", use="enc"),
        row("RS256", n="!"),
        row("ES256", key_ops=["encrypt"]),
        row("ES256", x="AAAA"),
        row("ES256", crv="secp256k1"),
        OKPKey.generate_key("X25519").as_dict(private=False),
        OKPKey.generate_key("Ed448").as_dict(private=False),
        small,
    ]
    with pytest.raises(BadKeySet, match="no key for signatures"):
        read_key_set(json.dumps({"keys": useless}).encode())
    found = read_key_set(json.dumps({"keys": [*useless, row("ES256", use="sig")]}).encode())
    assert len(found) == 1
    assert found.find("one", "ES256") is not None
    assert found.find("two", "ES256") is None
