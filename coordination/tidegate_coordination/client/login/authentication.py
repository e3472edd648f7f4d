"""Authenticates a connection: SaslHandshake, then the tokens of the mechanism."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tidegate_protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from ..errors import AuthenticationFailed, Refused, TokenRefused
from ..properties.client import Address
from ..tokens.bearer import BearerToken, refusal, shown
from .sasl import Login, conversation

# Version 0 sends tokens without Kafka's frame; brokers before 1.0 know no other.
_FRAMED = 1


class Call(Protocol):
    """BrokerConnection.call."""

    def __call__(self, name: str, request: Any, *, min_version: int = 0) -> Awaitable[Any]: ...


async def authenticate(call: Call, broker: Address, login: Login) -> float:
    """Return after how many seconds the broker ends the session; 0 for never.

    Raises:
      AuthenticationFailed: the broker refuses, or does not know the password itself.
      TokenRefused: the broker refuses the token.
      Refused, Unsupported: the broker cannot authenticate this client.
    """
    await _agree_on_mechanism(call, broker, login.mechanism)
    try:
        return await _converse(call, login)
    except AuthenticationFailed as error:
        raise type(error)(f"{broker} does not authenticate {login.who}: {error}") from None


async def _agree_on_mechanism(call: Call, broker: Address, wanted: str) -> None:
    request = SaslHandshakeRequest(wanted)
    answer: SaslHandshakeResponse = await call("SaslHandshake", request, min_version=_FRAMED)
    match answer.error_code:
        case ErrorCode.NONE:
            return
        case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{broker} does not offer {wanted}: set sasl.mechanism to one that it offers"
                f" ({offered})."
            )
        case ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(
                f"{broker} expects no SASL at this port: set security.protocol to PLAINTEXT or SSL,"
                " or use another port."
            )
        case code:
            raise Refused(f"{broker} refused SaslHandshake", code)


async def _converse(call: Call, login: Login) -> float:
    tokens = conversation(login)
    token = next(tokens)
    while True:
        answer: SaslAuthenticateResponse
        answer = await call("SaslAuthenticate", SaslAuthenticateRequest(token))
        if answer.error_code:
            known = error_text(ErrorCode.SASL_AUTHENTICATION_FAILED)
            said = answer.error_message or known
            if isinstance(login, BearerToken):
                raise TokenRefused(refusal(said, login.text))
            raise AuthenticationFailed(shown(said))
        try:
            token = tokens.send(answer.auth_bytes)
        except StopIteration:
            return answer.session_lifetime_ms / 1000
