"""Targets: what clients send before they are known, and tokens of identity providers."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from hashlib import pbkdf2_hmac, sha256
from hmac import digest
from random import Random
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import OKPKey

from tidegate_gateway.security.oauth.key_set import BadKeySet, KeySet, read_key_set
from tidegate_gateway.security.oauth.token_check import (
    BadToken,
    BearerToken,
    WantedClaims,
    check_token,
)
from tidegate_gateway.security.sasl.bearer import BearerConversation
from tidegate_gateway.security.sasl.exchange import Exchange
from tidegate_gateway.security.sasl.mechanism import Mechanism
from tidegate_gateway.security.sasl.plain import PlainConversation, is_password_in
from tidegate_gateway.security.sasl.scram import ScramConversation, TokenLogin
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.headers import encode_request_header
from tidegate_protocol.messages import api_versions, sasl_authenticate, sasl_handshake
from tidegate_runtime.secret import Secret

NOW: Final = 1_700_000_000
ISSUER: Final = "https://provider.example"
KEY_ID: Final = "one"
_SECRET: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))  # signs without randomness
SCRAM: Final = "SCRAM-SHA-256"
_LENGTH_BYTES: Final = 2
_SALT: Final = b"salt"
_ROUNDS: Final = 4096
_NONCE: Final = "server"
_PASSWORD: Final = "a-password-that-no-mutation-finds"


def token_of(header: dict[str, Any] | None = None, **claims: Any) -> bytes:
    """Return a signed token, by default a good one."""
    good = {"iss": ISSUER, "sub": "alice", "iat": NOW - 60, "exp": NOW + 3600}
    parts = [header or {"alg": "EdDSA", "kid": KEY_ID}, good | claims]
    text = b".".join(_segment(json.dumps(each).encode()) for each in parts)
    return text + b"." + _segment(_SECRET.sign(text))


def _segment(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def _keys() -> dict[str, Any]:
    return OKPKey.import_key(_SECRET.public_key(), {"kid": KEY_ID}).as_dict(private=False)


class TokensTarget:
    """Input: a byte that says which, and a token or a key set.

    Only tokens that the provider signed may be accepted, because no damage makes a valid token.
    """

    head_bytes = 1
    fixed_bytes = 4 << 20
    bytes_per_byte = 256
    seconds_per_kib = 0.05

    def __init__(self) -> None:
        self._set = read_key_set(json.dumps({"keys": [_keys()]}).encode())
        self._signed = {each.rpartition(b".")[0] for each in self._tokens()}

    def _tokens(self) -> list[bytes]:
        return [
            token_of(),
            token_of({"alg": "Ed25519", "kid": KEY_ID, "typ": "JWT"}),
            token_of({"alg": "EdDSA"}),
            token_of(aud="kafka", scope=["a", "b"], nbf=NOW),
            token_of(exp=NOW - 60),
            token_of({"alg": "none"}),
            token_of({"alg": "HS256", "kid": KEY_ID}),
        ]

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        keys: list[dict[str, Any]] = [
            _keys(),
            {"kty": "RSA", "n": "AQ" * 200, "e": "AQAB", "use": "sig"},
            {"kty": "EC", "crv": "P-256", "x": "AA" * 22, "y": "AA" * 22},
            {"kty": "oct", "k": "AAAA"},
        ]
        sets = [json.dumps({"keys": keys[: rng.randint(1, 4)]}).encode() for _ in range(4)]
        return [b"\0" + each for each in self._tokens()] + [b"\1" + each for each in sets]

    def repair(self, rng: Random, data: bytearray) -> None:
        """See engine.Target."""
        if bytes(data[:1]) == b"\0" and rng.random() < 0.3:
            text = bytes(data[1:]).rpartition(b".")[0]
            # The damaged text gets a valid signature, so it counts as signed by the provider.
            data[1:] = text + b"." + _segment(_SECRET.sign(text))
            self._signed.add(text)

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        kind, text = data[:1], data[1:]
        if kind != b"\0":
            return _read_keys(text)
        try:
            found = check_token(text.decode("latin-1"), self._set, WantedClaims(ISSUER), NOW)
        except BadToken:
            return None
        assert text.rpartition(b".")[0] in self._signed, "a token that no provider signed is taken"
        assert found.subject, "nobody"
        return None


def _read_keys(text: bytes) -> None:
    try:
        found = read_key_set(text)
    except BadKeySet:
        return
    assert len(found) > 0
    found.find(KEY_ID, "EdDSA")
    found.find(None, "RS256")


class _Credential(NamedTuple):
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class LoginsTarget:
    """Input: frames, each with its length in two bytes, on one connection.

    A client becomes alice only by her password, a proof of it, or a token of hers: one of the
    provider, or a delegation token.
    """

    head_bytes = 0
    fixed_bytes = 4 << 20
    bytes_per_byte = 256
    seconds_per_kib = 0.05

    def __init__(self) -> None:
        salted = pbkdf2_hmac("sha256", _PASSWORD.encode(), _SALT, _ROUNDS)
        self._client_key = digest(salted, b"Client Key", "sha256")
        stored = sha256(self._client_key).digest()
        self._credential = _Credential(
            _SALT, _ROUNDS, stored, digest(salted, b"Server Key", "sha256")
        )
        self._token = token_of()
        self._set: KeySet = read_key_set(json.dumps({"keys": [_keys()]}).encode())
        self._scram = list(self._scram_messages("n=alice,r=client"))
        self._by_token = list(self._scram_messages("n=token,r=client,tokenauth=true"))
        # Proofs without their last characters: several base64 texts stand for the same bytes there.
        both = self._scram[1], self._by_token[1]
        self._proofs = [each.rpartition(b",p=")[2][:-2] for each in both]

    def _mechanisms(self) -> list[Mechanism]:
        def check(token: str) -> BearerToken:
            return check_token(token, self._set, WantedClaims(ISSUER), NOW)

        def lookup(mechanism: str, user: str) -> _Credential | None:
            return self._credential if (mechanism, user) == (SCRAM, "alice") else None

        def find_token(mechanism: str, token_id: str) -> TokenLogin | None:
            if (mechanism, token_id) != (SCRAM, "token"):
                return None
            return TokenLogin(self._credential, "alice", 60.0)

        return [
            Mechanism(
                "PLAIN", lambda: PlainConversation(is_password_in({"alice": Secret(_PASSWORD)}))
            ),
            Mechanism(
                SCRAM,
                lambda: ScramConversation(SCRAM, lookup, _NONCE, b"secret", find_token),
                5000,
            ),
            Mechanism("OAUTHBEARER", lambda: BearerConversation(check, lambda: NOW), 5000),
        ]

    def _scram_messages(self, bare: str) -> Iterator[bytes]:
        first = f"r=client{_NONCE},s={b64encode(_SALT).decode()},i={_ROUNDS}"
        unproved = f"c=biws,r=client{_NONCE}"
        signature = digest(
            self._credential.stored_key, f"{bare},{first},{unproved}".encode(), "sha256"
        )
        proof = bytes(a ^ b for a, b in zip(self._client_key, signature, strict=True))
        yield f"n,,{bare}".encode()
        yield f"{unproved},p={b64encode(proof).decode()}".encode()

    def seeds(self, rng: Random) -> list[bytes]:
        """See engine.Target."""
        first = b"n,,\x01auth=Bearer " + self._token + b"\x01\x01"
        logins = [
            ("PLAIN", [f"\0alice\0{_PASSWORD}".encode()]),
            (SCRAM, self._scram),
            (SCRAM, self._by_token),
            ("OAUTHBEARER", [first]),
        ]
        found: list[bytes] = []
        for mechanism, tokens in logins:
            for version in (0, 1):
                steps = [_versions(), _shake(mechanism, version)]
                steps += [each if version == 0 else _authenticate(each) for each in tokens]
                found.append(_joined(steps))
                found.append(_joined([*steps, *steps[1:]]))
        found.append(_joined([_shake("OAUTHBEARER", 1), _authenticate(b"n,,\x01\x01")]))
        rng.shuffle(found)
        return found

    def repair(self, rng: Random, data: bytearray) -> None:
        """Have the lengths fit again; see engine.Target."""
        if rng.random() < 0.8:
            data[:] = _joined(list(_split(bytes(data))))

    def run(self, data: bytes) -> None:
        """See engine.Target."""
        machine, now = Exchange(self._mechanisms()), 0.0
        for frame in _split(data):
            now += 0.5
            if machine.is_done and not machine.begin_again(now):
                break
            if machine.receive(memoryview(frame), now).end is not None:
                break
        if machine.principal is None:
            return
        assert machine.principal == "User:alice", machine.principal
        proofs = (_PASSWORD.encode(), self._token.rpartition(b".")[0], *self._proofs)
        assert any(each in data for each in proofs), "alice without a proof"


def _split(data: bytes) -> Iterator[bytes]:
    """Yield the frames; the last one may be cut short."""
    position = 0
    while position < len(data):
        end = position + _LENGTH_BYTES
        size = int.from_bytes(data[position:end], "big")
        yield data[end : end + size]
        position = end + size


def _joined(frames: list[bytes]) -> bytes:
    whole = [each[:0xFFFF] for each in frames]
    return b"".join(len(each).to_bytes(_LENGTH_BYTES, "big") + each for each in whole)


def _request(key: ApiKey, version: int, body: bytes) -> bytes:
    return bytes(encode_request_header(key, version, 7, client_id="fuzz")) + body


def _versions() -> bytes:
    request = api_versions.ApiVersionsRequest("fuzz", "1")
    return _request(ApiKey.API_VERSIONS, 3, bytes(api_versions.encode_request(request, 3)))


def _shake(mechanism: str, version: int) -> bytes:
    request = sasl_handshake.SaslHandshakeRequest(mechanism)
    return _request(
        ApiKey.SASL_HANDSHAKE, version, bytes(sasl_handshake.encode_request(request, version))
    )


def _authenticate(token: bytes) -> bytes:
    request = sasl_authenticate.SaslAuthenticateRequest(token)
    return _request(
        ApiKey.SASL_AUTHENTICATE, 2, bytes(sasl_authenticate.encode_request(request, 2))
    )
