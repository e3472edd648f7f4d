"""The part of the list that is about OAUTHBEARER: tokens, and the messages that hold them.  Pure.

Each process makes new keys and publishes them, so answers do not depend on the keys.  Times are
long ago or far away, so that any clock will do.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from .frames import Case, bare, module_of, request, shake, token

TOKENS: Final = "TOKENS"
"""The listener."""

ISSUER: Final = "https://provider.example"
AUDIENCES: Final = ("tidegate", "kafka")
LONG_AGO: Final = 1_600_000_000
FAR_AWAY: Final = 4_000_000_000
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_ALGORITHMS: Final = ("ES256", "RS256", "PS256")


def token_settings(url: str) -> dict[str, str]:
    """Return the settings of the listener.  url: where the broker finds the public keys."""
    prefix = f"listener.name.{TOKENS.lower()}"
    mechanism = f"{prefix}.oauthbearer"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{mechanism}.sasl.jaas.config": f"{MODULE} required;",
        f"{mechanism}.sasl.server.callback.handler.class": HANDLER,
        f"{mechanism}.sasl.oauthbearer.jwks.endpoint.url": url,
        f"{mechanism}.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{mechanism}.sasl.oauthbearer.expected.audience": ",".join(AUDIENCES),
    }


@cache
def _key(name: str) -> RSAKey | ECKey:
    parameters: Any = {"kid": name}
    if name.startswith("rsa"):
        return RSAKey.generate_key(2048, parameters)
    return ECKey.generate_key("P-256", parameters)


def published_keys() -> bytes:
    """Return the key set."""
    keys = [_key("rsa").as_dict(private=False), _key("ec").as_dict(private=False)]
    return json.dumps({"keys": keys}).encode()


def bearer(key: str = "ec", algorithm: str = "ES256", **claims: Any) -> str:
    """Return a token for alice; a claim of None is left out.  key: the id of the signing key."""
    good: dict[str, Any] = {
        "iss": ISSUER,
        "sub": "alice",
        "aud": "kafka",
        "iat": LONG_AGO,
        "exp": FAR_AWAY,
        "scope": "read",
    }
    said = {name: each for name, each in (good | claims).items() if each is not None}
    return _signed({"alg": algorithm, "kid": key}, said, key)


def _signed(header: dict[str, Any], claims: Any, key: str) -> str:
    data = json.dumps(claims).encode()
    registry = jws.JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
    return jws.serialize_compact(header, data, _key(key), registry=registry)


def _segment(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _forged(header: dict[str, Any], secret: bytes = b"") -> str:
    """Return a token that is signed by an HMAC, or by nothing without a secret."""
    claims = {"iss": ISSUER, "sub": "alice", "aud": "kafka", "iat": LONG_AGO, "exp": FAR_AWAY}
    text = f"{_segment(header)}.{_segment(claims)}"
    signature = hmac.digest(secret, text.encode(), "sha256") if secret else b""
    return f"{text}.{urlsafe_b64encode(signature).decode().rstrip('=')}"


def first_message(text: str, authorization_id: str = "", more: str = "") -> bytes:
    """Return the client's first message."""
    authzid = f"a={authorization_id}" if authorization_id else ""
    return f"n,{authzid},\x01auth=Bearer {text}\x01{more}\x01".encode()


def token_cases() -> Iterator[Case]:
    """Yield the cases."""
    for name, text in _bearers().items():
        yield _case(name, first_message(text))
    good = bearer()
    for name, message in _messages(good).items():
        yield _case(f"message {name}", message)
    answers = {"byte": b"\1", "nothing": b"", "bytes": b"\1\1", "bad token": first_message("a.b.c")}
    for name, data in answers.items():
        steps = shake("OAUTHBEARER"), token(first_message("a.b.c")), token(data)
        yield Case(f"bearer refused, then {name}", steps, TOKENS)
    yield from _orders(good)


def _case(name: str, message: bytes) -> Case:
    return Case(f"bearer {name}", (shake("OAUTHBEARER"), token(message), token(b"\1")), TOKENS)


def _bearers() -> dict[str, str]:
    claims = {"iss": ISSUER, "sub": "alice", "aud": "kafka", "iat": LONG_AGO, "exp": FAR_AWAY}
    public = _key("rsa").as_pem(private=False)
    return {
        "good": bearer(),
        "good rsa": bearer("rsa", "RS256"),
        "good pss": bearer("rsa", "PS256"),
        "good without scope": bearer(scope=None),
        "good of two audiences": bearer(aud=["other", "tidegate"]),
        "good without key id": _signed({"alg": "ES256"}, claims, "ec"),
        "key of unknown id": bearer("ec-unknown"),
        "other key of this id": _signed({"alg": "ES256", "kid": "ec"}, claims, "ec-other"),
        "other key without id": _signed({"alg": "ES256"}, claims, "ec-other"),
        "rsa with id of ec": _signed({"alg": "RS256", "kid": "ec"}, claims, "rsa"),
        "unsigned": _forged({"alg": "none"}),
        "unsigned with id": _forged({"alg": "none", "kid": "ec"}),
        "hmac of public key": _forged({"alg": "HS256", "kid": "rsa"}, public),
        "hmac of public key without id": _forged({"alg": "HS256"}, public),
        "expired": bearer(exp=LONG_AGO),
        "no exp": bearer(exp=None),
        "exp as text": bearer(exp="4000000000"),
        "negative exp": bearer(exp=-1),
        "no iat": bearer(iat=None),
        "iat in the future": bearer(iat=FAR_AWAY - 1),
        "not yet": bearer(nbf=FAR_AWAY - 1),
        "other issuer": bearer(iss="https://other.example"),
        "no issuer": bearer(iss=None),
        "other audience": bearer(aud="other"),
        "no audience": bearer(aud=None),
        "audience in a text": bearer(aud="other kafka"),
        "no subject": bearer(sub=None),
        "empty subject": bearer(sub=""),
        "blank subject": bearer(sub="  "),
        "subject with blanks": bearer(sub=" alice "),
        "subject as number": bearer(sub=5),
        "empty scope": bearer(scope=""),
        "scopes": bearer(scope=["read", "write"]),
        "scopes twice": bearer(scope=["read", "read"]),
        "no scopes": bearer(scope=[]),
        "scope as number": bearer(scope=5),
        "claims as list": _signed({"alg": "ES256", "kid": "ec"}, [1], "ec"),
        "no jwt": "abc",
        "two parts": "a.b",
        "three empty parts": "..",
        "four parts": f"{bearer()}.x",
        "cut short": bearer()[:-5],
        "another signature": f"{bearer().rpartition('.')[0]}.{bearer().rpartition('.')[2]}",
    }


def _messages(good: str) -> dict[str, bytes]:
    return {
        "its id": first_message(good, "alice"),
        "another id": first_message(good, "bob"),
        "another id and bad token": first_message("a.b.c", "bob"),
        "extensions": first_message(good, more="traceId=1\x01tenant=a b\x01"),
        "bad extension": first_message(good, more="trace-id=1\x01"),
        "auth twice": first_message(good, more=f"auth=Bearer {good}\x01"),
        "scheme in other case": f"n,,\x01auth=bEARER {good}\x01\x01".encode(),
        "scheme basic": f"n,,\x01auth=Basic {good}\x01\x01".encode(),
        "no scheme": f"n,,\x01auth={good}\x01\x01".encode(),
        "no auth": b"n,,\x01x=y\x01\x01",
        "no pairs": b"n,,\x01\x01",
        "empty": b"",
        "one byte": b"\1",
        "cut short": first_message(good)[:-1],
        "more behind": first_message(good) + b"x",
        "channel binding": b"y" + first_message(good)[1:],
        "of plain": b"\0alice\0secret",
        "of scram": b"n,,n=alice,r=abc",
        "no utf-8": first_message(good, more="x=\x7f\x01").replace(b"\x7f", b"\xff"),
        "token with slash": first_message("ab/c"),
        "long token": first_message("a" * 100_000),
    }


def _orders(good: str) -> Iterator[Case]:
    first = first_message(good)
    metadata = request("Metadata", 12, module_of("Metadata").MetadataRequest([]))
    shaken, sent = shake("OAUTHBEARER"), token(first)
    bob, bad = token(first_message(bearer(sub="bob"))), token(first_message("a.b"))
    old = shake("OAUTHBEARER", 0)
    for name, steps in {
        "served": (shaken, sent, metadata),
        "metadata after refusal": (shaken, bad, metadata),
        "good after refusal": (shaken, bad, sent),
        "again": (shaken, sent, shaken, sent, metadata),
        "again as another": (shaken, sent, shaken, bob),
        "again refused": (shaken, sent, shaken, bad, token(b"\1")),
        "of plain": (shake("PLAIN"), shaken),
        "v0": (shaken, token(first, 0), metadata),
        "v1": (shaken, token(first, 1), metadata),
        "bare": (old, bare(first), metadata),
        "bare refused": (old, bare(first_message("a.b")), bare(b"\1")),
        "bare no message": (old, bare(b"x")),
    }.items():
        yield Case(f"bearer {name}", steps, TOKENS)
