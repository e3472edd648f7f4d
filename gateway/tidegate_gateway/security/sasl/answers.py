"""The frames that answer a client before it is authenticated.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.frames import frame
from tidegate_protocol.headers import RequestHeader, response_header
from tidegate_protocol.messages import api_versions, metadata, sasl_authenticate, sasl_handshake


def handshake_answer(header: RequestHeader, code: ErrorCode, offered: Sequence[str]) -> bytes:
    """Return the answer to SaslHandshake; offered: the mechanisms of the listener."""
    response = sasl_handshake.SaslHandshakeResponse(code, list(offered))
    return _answer(header, sasl_handshake, response)


def authenticate_answer(
    header: RequestHeader, code: ErrorCode, text: str, token: bytes = b"", lifetime_ms: int = 0
) -> bytes:
    """Return the answer to SaslAuthenticate."""
    response = sasl_authenticate.SaslAuthenticateResponse(code, text, token, lifetime_ms)
    return _answer(header, sasl_authenticate, response)


def too_early_answer(header: RequestHeader, body: memoryview) -> bytes | None:
    """Return the answer to another request where a token was expected; None for no answer.

    Differs from Kafka, which answers every API with the API's own error.  Here only the APIs with
    which a client without SASL begins get an answer.

    Raises:
      RemoteProtocolError: the request is malformed.
    """
    code, version = ErrorCode.ILLEGAL_SASL_STATE, header.api_version
    facts = APIS.get(header.api_key)
    is_served = facts is not None and facts.min_version <= version <= facts.max_version
    if header.api_key == ApiKey.API_VERSIONS and not is_served:
        header = header._replace(api_version=0)
    elif not is_served:
        return None
    match header.api_key:
        case ApiKey.API_VERSIONS:
            return _answer(header, api_versions, api_versions.ApiVersionsResponse(error_code=code))
        case ApiKey.SASL_HANDSHAKE:
            return handshake_answer(header, code, ())
        case ApiKey.METADATA:
            asked = metadata.decode_request(body, version).topics or ()
            topics = [
                metadata.MetadataResponseTopic(
                    error_code=code, name=each.name, topic_id=each.topic_id
                )
                for each in asked
            ]
            return _answer(header, metadata, metadata.MetadataResponse(topics=topics))
        case _:
            return None


def _answer(header: RequestHeader, messages: ModuleType, response: Any) -> bytes:
    body = messages.encode_response(response, header.api_version)
    head = response_header(header.correlation_id, header.api_key, header.api_version)
    return frame(head + body)
