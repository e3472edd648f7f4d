"""An identity provider: it signs tokens (JWT, RFC 7519), and publishes keys that it replaces.

Its signatures are of Ed25519, which are the same in each run of a seed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, Final

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidegate_gateway.security.oauth.key_place import KeyPlace, KeysUnavailable

from ..plans.security.bearer_plan import AUDIENCE, ISSUER, BearerPlan

_ALGORITHM: Final = "EdDSA"
_KEEPS_SECONDS: Final = (5.0, 12.0)


def encoded(data: bytes) -> str:
    """Return bytes as a JWT has them."""
    return urlsafe_b64encode(data).decode().rstrip("=")


@dataclass(slots=True)
class SigningKey:
    """published_at, retired_at: the key is published from the first time to before the second."""

    name: str
    private: Ed25519PrivateKey
    published_at: float = 0.0
    retired_at: float = inf

    @property
    def public(self) -> bytes:
        """Return the public key that verifies its signatures."""
        return self.private.public_key().public_bytes_raw()


class IdentityProvider:
    """keys: all that it ever published, the oldest first.

    told: by node id, the names of the keys that the gateway's present incarnation read last.
    """

    def __init__(self, plan: BearerPlan, rng: Random) -> None:
        self.told: dict[int, frozenset[str]] = {}
        self._plan = plan
        self._rng = rng
        self.keys = [self._made("key-1")]

    def _made(self, name: str) -> SigningKey:
        private = Ed25519PrivateKey.from_private_bytes(self._rng.randbytes(32))
        return SigningKey(name, private, trio.current_time())

    async def run(self) -> None:
        """Publish another key now and then, and later retire the former one; forever."""
        while True:
            await trio.sleep(self._rng.uniform(*_KEEPS_SECONDS))
            former = self.keys[-1]
            self.keys.append(self._made(f"key-{len(self.keys) + 1}"))
            await trio.sleep(self._rng.uniform(*_KEEPS_SECONDS))
            former.retired_at = trio.current_time()

    def published(self) -> list[SigningKey]:
        """Return the keys that sign at present, the newest last."""
        return [each for each in self.keys if each.retired_at == inf]

    def never_published(self, name: str) -> SigningKey:
        """Return a key that no gateway gets from this provider."""
        return self._made(name)

    async def read(self, node_id: int, _place: KeyPlace) -> bytes:
        """Answer a gateway that asks for the keys.

        Raises:
          KeysUnavailable: it answers no gateway now.
        """
        await trio.sleep(self._rng.random() * 0.2)
        if self._rng.random() < self._plan.hangs:
            await trio.sleep_forever()
        if self._rng.random() < self._plan.failures:
            raise KeysUnavailable("injected: the provider is down")
        published = self.published()
        self.told[node_id] = frozenset(each.name for each in published)
        return json.dumps({"keys": [_row(each) for each in published]}).encode()

    def forget(self, node_id: int) -> None:
        """Note that a gateway has started, and has no key yet."""
        self.told[node_id] = frozenset()


def _row(key: SigningKey) -> dict[str, str]:
    return {"kty": "OKP", "crv": "Ed25519", "kid": key.name, "x": encoded(key.public), "use": "sig"}


def claims_of(subject: str, now: float, seconds: float, **others: Any) -> dict[str, Any]:
    """Return the claims of a valid token.  others: claims to set, or with None to leave out."""
    said = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + seconds}
    return {name: value for name, value in (said | others).items() if value is not None}


def signed(key: SigningKey, claims: Mapping[str, Any], name: str = "") -> str:
    """Return a token; name: of the key that the token names, if it is another than `key`."""
    text = _unsigned({"alg": _ALGORITHM, "kid": name or key.name}, claims)
    return f"{text}.{encoded(key.private.sign(text.encode()))}"


def unsigned(claims: Mapping[str, Any]) -> str:
    """Return a token of the algorithm `none`."""
    return f"{_unsigned({'alg': 'none'}, claims)}."


def signed_by_the_public_key(key: SigningKey, claims: Mapping[str, Any]) -> str:
    """Return a token with an HMAC, for which everyone has the key."""
    text = _unsigned({"alg": "HS256", "kid": key.name}, claims)
    return f"{text}.{encoded(hmac.digest(key.public, text.encode(), hashlib.sha256))}"


def _unsigned(header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
