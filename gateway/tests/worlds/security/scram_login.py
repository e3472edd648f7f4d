"""The client's messages of SCRAM-SHA-256, which a test may spoil."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

from tidegate_coordination.state.security.scram import ScramCredential
from tidegate_gateway.requests.scram.scram import credential_from
from tidegate_gateway.security.sasl.scram import ScramConversation
from tidegate_protocol.messages.alter_user_scram_credentials import ScramCredentialUpsertion

MECHANISM = "SCRAM-SHA-256"
SALT = b"salt of at least twelve bytes"
ITERATIONS = 4096


def salted(password: str) -> bytes:
    """Return the salted password that a SCRAM client computes."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS)


def upsertion(user: str, password: str) -> ScramCredentialUpsertion:
    """Return the row of AlterUserScramCredentials that sets a password."""
    return ScramCredentialUpsertion(user, 1, ITERATIONS, SALT, salted(password))


def server_of(user: str, password: str) -> ScramConversation:
    """Return the server's side of one login.  The server's part of the nonce is SERVER."""
    known: dict[tuple[str, str], ScramCredential] = {
        (MECHANISM, user): credential_from(upsertion(user, password))
    }
    return ScramConversation(
        MECHANISM, lambda name, wanted: known.get((name, wanted)), "SERVER", b"of the gateways"
    )


def final_message(first_bare: str, server_first: str, password: str, nonce: str = "") -> bytes:
    """Return the client's final message with a proof that fits it.

    nonce: replaces the nonce that the server has sent.
    """
    nonce = nonce or server_first.split(",")[0].removeprefix("r=")
    unproved = f"c=biws,r={nonce}"
    signed = f"{first_bare},{server_first},{unproved}".encode()
    client_key = hmac.digest(salted(password), b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    return f"{unproved},p={b64encode(proof).decode()}".encode()
