"""Gets a token from an identity provider, or from a file."""

from __future__ import annotations

from typing import Final

import trio

from tidegate_runtime.http.client import HttpUnavailable
from tidegate_runtime.http.urls import call_url, read_file, scheme_of, why_unread

from ..errors import AuthenticationFailed, TokenUnavailable
from ..properties.bearer_credentials import ENDPOINT, BearerCredentials
from ..tls import make_tls_context
from .requests import token_in, token_request

MAX_BYTES: Final = 256 << 10
"""Half of what Kafka receives before a login (sasl.server.max.receive.size)."""


async def fetch_token(credentials: BearerCredentials) -> str:
    """See token_source.FetchToken."""
    if credentials.is_file:
        return await _in_file(credentials)
    context = None
    if scheme_of(credentials.url) == "https":
        context = await trio.to_thread.run_sync(make_tls_context, credentials.tls)
    headers, body = token_request(credentials)
    try:
        answer = await call_url(
            credentials.url,
            "POST",
            tls=context,
            headers=headers,
            body=body,
            max_answer_bytes=MAX_BYTES,
        )
    except HttpUnavailable as error:
        raise TokenUnavailable(f"there is no token: {error}; it is asked again.") from error
    return token_in(answer, credentials)


async def _in_file(credentials: BearerCredentials) -> str:
    try:
        content = await read_file(credentials.url, MAX_BYTES)
    except OSError as error:
        raise AuthenticationFailed(
            f"the token in {credentials.place} cannot be read ({why_unread(error)}): write it"
            f" there, or change {ENDPOINT}."
        ) from error
    return content.decode(errors="replace").strip()
