"""The client's side of SCRAM, which may do wrong.  Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidegate_protocol.messages import sasl_authenticate as sa

from .frames import (
    Answers,
    Send,
    bare,
    shake,
    token,
)

USERS: Final = {"alice": "secret", "bob": "hunter2"}
"""Passwords by user, for PLAIN and both SCRAM mechanisms; their bytes are also SCRAM's salts."""
SALT: Final = b"a salt of these tests"
ITERATIONS: Final = 4096
NONCE: Final = "fyko+d2lbbFgONRv9qkxdawL"


@dataclass(frozen=True, slots=True)
class Scram:
    """A client of SCRAM whose messages can be spoiled.

    last: (nonce, the message without proof, proof) -> the final message.
    """

    mechanism: str
    first: str = f"n,,n=alice,r={NONCE}"
    password: str = USERS["alice"]
    last: Callable[[str, str, str], str] = lambda _nonce, unproved, proof: f"{unproved},p={proof}"

    def final(self, challenge: bytes) -> bytes:
        """Return the final message."""
        fields = dict(each.split("=", 1) for each in challenge.decode().split(","))
        hash_name = self.mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        salted = hashlib.pbkdf2_hmac(
            hash_name, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
        )
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        unproved = f"c=biws,r={fields['r']}"
        bare_first = self.first[self.first.index(",n=") + 1 :]
        signed = f"{bare_first},{challenge.decode()},{unproved}"
        signature = hmac.digest(stored_key, signed.encode(), hash_name)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return self.last(fields["r"], unproved, base64.b64encode(proof).decode()).encode()

    def steps(self) -> tuple[Send, ...]:
        """Return handshake and tokens."""

        def last(answers: Answers) -> bytes:
            body = memoryview(answers[-1])[5:]
            return self.final(sa.decode_response(body, 2).auth_bytes)

        return shake(self.mechanism), token(self.first.encode()), token(last)

    def bare_steps(self) -> tuple[Send, ...]:
        """Return the steps of an old client, which sends its tokens without Kafka's header."""

        def last(answers: Answers) -> bytes:
            return self.final(answers[-1])

        return shake(self.mechanism, 0), bare(self.first.encode()), bare(last)
