"""An identity provider in memory: it signs tokens, and publishes its keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any
from warnings import catch_warnings

import trio
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tidegate_gateway.security.oauth.key_place import KeyPlace

Key = RSAKey | ECKey | OKPKey | OctKey

ISSUER = "https://provider.example"
NOW = 1_700_000_000


@cache
def key_of(algorithm: str, name: str = "one") -> Key:
    """Return a key for an algorithm; the name tells keys of one kind apart."""
    parameters: Any = {"kid": name}
    match algorithm[:2]:
        case "RS" | "PS":
            return RSAKey.generate_key(2048, parameters)
        case "ES":
            curve = {"256": "P-256", "384": "P-384", "512": "P-521"}[algorithm[2:]]
            return ECKey.generate_key(curve, parameters)
        case "HS":
            return OctKey.generate_key(256, parameters)
        case _:
            return OKPKey.generate_key("Ed25519", parameters)


class Provider:
    """keys: the keys that it publishes.  reads: how often they were read.

    error: raised by each read, if set.  seconds: how long a read takes.
    """

    def __init__(self, *keys: Key, issuer: str = ISSUER) -> None:
        self.keys = list(keys) or [key_of("ES256")]
        self.issuer = issuer
        self.reads = 0
        self.error: Exception | None = None
        self.seconds = 0.0

    def key_set(self) -> bytes:
        """Return the public keys (JWKS) that the provider publishes."""
        return json.dumps({"keys": [each.as_dict(private=False) for each in self.keys]}).encode()

    async def read(self, place: KeyPlace) -> bytes:
        """Stand in for key_place.read_keys."""
        del place
        self.reads += 1
        await trio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return self.key_set()

    def claims(self, **more: Any) -> dict[str, Any]:
        """Return the claims of a good token for alice; a claim of None is left out."""
        claims = {"iss": self.issuer, "sub": "alice", "iat": NOW - 60, "exp": NOW + 3600} | more
        return {name: each for name, each in claims.items() if each is not None}

    def token(self, key: Key | None = None, algorithm: str = "ES256", **claims: Any) -> str:
        """Return a token, signed by its first key unless another one is given."""
        key = key or self.keys[0]
        return signed({"alg": algorithm, "kid": key.kid}, self.claims(**claims), key)


def signed(header: Mapping[str, Any], claims: Any, key: Key) -> str:
    """Return a token of any header and claims."""
    text = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    registry = jws.JWSRegistry(algorithms=[header["alg"]], strict_check_header=False)
    with catch_warnings(action="ignore", category=SecurityWarning):
        return jws.serialize_compact(dict(header), text, key, registry=registry)


def first_message(token: str, authorization_id: str = "", scheme: str = "Bearer") -> bytes:
    """Return a client's message with a token."""
    authzid = f"a={authorization_id}" if authorization_id else ""
    return f"n,{authzid},\x01auth={scheme} {token}\x01\x01".encode()
