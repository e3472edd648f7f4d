"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84), the server's side.  Pure.

The server holds keys from which the password cannot be computed, so a login costs a few HMACs; only
the client computes PBKDF2.  As in Kafka, texts are ASCII without SASLprep, and there is no channel
binding.

Differs from Kafka: a user that does not exist also gets a salt, the same one at each try, and fails
at the end with the text of a wrong password.  Kafka refuses such a user at the first message, which
reveals which users exist.  Delegation tokens that do not exist, or have expired, are handled in the
same way.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from .mechanism import InvalidCredentials, Refused

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS: Final = 4096
NONCE_BYTES: Final = 18

_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,"
    rf"(?:m={_VALUE},)?(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})"
    rf"(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_FINAL: Final = re.compile(
    rf"(?P<unproved>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    rf",p=(?P<proof>{_BASE64})",
    re.DOTALL,
)
_TOKEN_LOGIN: Final = "tokenauth"
"""The extension that says that the user is a delegation token (KIP-48)."""
# Kafka's tools make salts of 130 random bits, written in base 36.
_SALT_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Credential(Protocol):
    """The keys that the cluster keeps of a user's password for one mechanism."""

    @property
    def salt(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class MadeUp:
    """The credential of a user that does not exist."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


Lookup = Callable[[str, str], Credential | None]
"""(mechanism, user) -> the credential; None if there is none.  Raises CannotOpen."""


class CannotOpen(Exception):
    """The user has a credential that this gateway cannot open.  The text tells an operator why."""


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """The facts of a delegation token that a login needs.

    user: the token's owner.  lasts_seconds: how long the token is valid from now on.
    """

    credential: Credential
    user: str
    lasts_seconds: float


FindToken = Callable[[str, str], TokenLogin | None]
"""(mechanism, token id) -> the token; None if there is none that is good.  Raises NotYet."""


def no_token(_mechanism: str, _token_id: str) -> TokenLogin | None:
    """Find no token."""
    return None


def made_up(mechanism: str, user: str, secret: bytes) -> MadeUp:
    """Return a made-up credential for a user that does not exist: no password matches it."""
    name = HASHES[mechanism]
    seed = hmac.digest(secret, f"{mechanism}\0{user}".encode(), "sha512")
    number = int.from_bytes(seed, "big") & ((1 << _SALT_BITS) - 1)
    size = hashlib.new(name).digest_size
    return MadeUp(_base36(number).encode(), MIN_ITERATIONS, bytes(size), bytes(size))


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits


class ScramConversation:
    """Two tokens: the client's name and nonce, then its proof.

    Args:
      nonce: printable, without a comma, and never used before.
      secret: the same for all gateways; see made_up.
    """

    def __init__(
        self,
        mechanism: str,
        lookup: Lookup,
        nonce: str,
        secret: bytes,
        find_token: FindToken = no_token,
    ) -> None:
        self.user: str | None = None
        self.token_id: str | None = None
        self.lasts_seconds = inf
        self.why_refused = ""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._lookup = lookup
        self._find_token = find_token
        self._own_nonce = nonce
        self._secret = secret
        self._name = ""
        self._is_by_token = False
        self._first_bare = self._server_first = self._nonce = ""
        self._credential: Credential | None = None
        self._is_known = False
        self._why_unknown = "there is no such user"

    def step(self, token: bytes) -> bytes:
        """See Conversation."""
        text = token.decode(errors="replace")
        return self._first(text) if self._credential is None else self._final(text)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise InvalidCredentials("the first message is not SCRAM's")
        self._name = _plain_name(found["name"])
        self._is_by_token = _says_token(found["extensions"])
        known = self._found()
        self._is_known = known is not None
        # As in Kafka, the authorization id is compared without unescaping it.
        if found["authzid"] not in (None, self._name):
            raise Refused(
                "Authentication failed: Client requested an authorization id that is different"
                " from username"
            )
        credential = known or made_up(self._mechanism, self._name, self._secret)
        if credential.iterations < MIN_ITERATIONS:
            raise InvalidCredentials(f"the credential has fewer than {MIN_ITERATIONS} iterations")
        self._credential = credential
        self._first_bare = found["bare"]
        self._nonce = found["nonce"] + self._own_nonce
        salt = b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _found(self) -> Credential | None:
        if self._is_by_token:
            self._why_unknown = "there is no such token, or it has ended"
            token = self._find_token(self._mechanism, self._name)
            if token is None:
                return None
            self.token_id = self._name
            return token.credential
        try:
            return self._lookup(self._mechanism, self._name)
        except CannotOpen as error:
            # The client sees the same as for an unknown user; only the gateway's log tells that
            # this user exists.
            self._why_unknown = str(error)
            return None

    def _final(self, text: str) -> bytes:
        assert self._credential is not None
        found = _FINAL.fullmatch(text)
        if found is None:
            raise InvalidCredentials("the final message is not SCRAM's")
        if not hmac.compare_digest(found["nonce"], self._nonce):
            raise InvalidCredentials("the final message has another nonce")
        signed = f"{self._first_bare},{self._server_first},{found['unproved']}".encode()
        is_proved = self._is_proof(b64decode(found["proof"]), signed)
        if not self._is_known:
            raise InvalidCredentials(self._why_unknown)
        if not is_proved:
            raise InvalidCredentials("the password is wrong")
        self._succeed()
        signature = hmac.digest(self._credential.server_key, signed, self._hash)
        return b"v=" + b64encode(signature)

    def _succeed(self) -> None:
        if not self._is_by_token:
            self.user = self._name
            return
        token = self._find_token(self._mechanism, self._name)
        if token is None:
            raise InvalidCredentials("the token has ended meanwhile")
        self.user, self.lasts_seconds = token.user, token.lasts_seconds

    def _is_proof(self, proof: bytes, signed: bytes) -> bool:
        assert self._credential is not None
        stored_key = self._credential.stored_key
        signature = hmac.digest(stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), stored_key)


def _says_token(extensions: str) -> bool:
    """Return whether the client names a token. extensions: each begins with a comma."""
    pairs = dict(each.split("=", 1) for each in extensions.split(",") if each)
    return pairs.get(_TOKEN_LOGIN, "").lower() == "true"


def _plain_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
