"""SaslHandshake, versions 0-1, and SaslAuthenticate, 0-2, when no authentication is under way.

During an authentication the connection's gate answers (security/sasl).  These handlers get the
requests of clients that are authenticated, or need no authentication.  As in Kafka, the answer is
an error, and the connection stays open.  All listeners announce both APIs, as Kafka's do.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import sasl_authenticate, sasl_handshake
from tidegate_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tidegate_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

from ...network.call import Call

_CODE: Final = ErrorCode.ILLEGAL_SASL_STATE
_TEXT: Final = "SaslAuthenticate request received after successful authentication"


@dataclass(frozen=True, slots=True)
class LateSaslHandshake:
    """Answers SaslHandshake when no authentication is under way."""

    api_key: ClassVar[int] = ApiKey.SASL_HANDSHAKE
    messages: ClassVar[ModuleType] = sasl_handshake

    async def handle(self, call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Refuse."""
        return SaslHandshakeResponse(_CODE)


@dataclass(frozen=True, slots=True)
class LateSaslAuthenticate:
    """Answers SaslAuthenticate when no authentication is under way."""

    api_key: ClassVar[int] = ApiKey.SASL_AUTHENTICATE
    messages: ClassVar[ModuleType] = sasl_authenticate

    async def handle(
        self, call: Call, request: SaslAuthenticateRequest
    ) -> SaslAuthenticateResponse:
        """Refuse."""
        return SaslAuthenticateResponse(_CODE, _TEXT)
