"""Request and response headers.

A request header is the API key, the version, the correlation id and the client id; flexible
versions add a tagged section (header version 2).  The client id keeps its two-byte length in both,
because a broker must be able to read the header of an ApiVersions version that it does not know.
For the same reason ApiVersions answers always carry response header 0 (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from .apis import APIS, ApiKey
from .errors import LocalProtocolError, RemoteProtocolError
from .primitives import DECODE_ERRORS, malformed, skip_tags, write_string

_API_VERSIONS = ApiKey.API_VERSIONS

_FIXED = Struct(">hhi")
_FIXED_AND_LENGTH = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_FIRST_FLEXIBLE = {key: facts.first_flexible_version for key, facts in APIS.items()}


class RequestHeader(NamedTuple):
    """A request's header.

    ``body_position`` is where the body starts.  For an unknown API key it is where the body of a
    version that is not flexible would start.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def decode_request_header(data: memoryview) -> RequestHeader:
    """Read the header of a frame.

    Raises:
      RemoteProtocolError: the frame is shorter than its header, or the client id is not text.
    """
    try:
        header = _read(data)
    except DECODE_ERRORS as error:
        raise malformed("RequestHeader", 2, error) from error
    if header.body_position > len(data):
        raise RemoteProtocolError("a frame ends inside its request header")
    return header


def _read(data: memoryview) -> RequestHeader:
    key, version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(data)
    position = 10
    client_id: str | None = None
    if length >= 0:
        position += length
        client_id = str(data[10:position], "utf-8")
    elif length < -1:
        raise RemoteProtocolError(f"the client id has length {length}")
    first_flexible = _FIRST_FLEXIBLE.get(key)
    if first_flexible is not None and version >= first_flexible:
        position = skip_tags(data, position) if data[position] else position + 1
    return RequestHeader(key, version, correlation_id, client_id, position)


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, *, client_id: str | None
) -> bytearray:
    """Write a request header, as a client does.

    Raises:
      LocalProtocolError: we have no such API.
    """
    facts = APIS.get(api_key)
    if facts is None:
        raise LocalProtocolError(f"no API has key {api_key}")
    out = bytearray(_FIXED.pack(api_key, api_version, correlation_id))
    if client_id is None:
        out += b"\xff\xff"
    else:
        write_string(out, client_id)
    if api_version >= facts.first_flexible_version:
        out.append(0)
    return out


def response_header(correlation_id: int, api_key: int, api_version: int) -> bytes:
    """Write the header that stands before a response's body."""
    raw = _CORRELATION_ID.pack(correlation_id)
    return raw + b"\0" if _has_tags(api_key, api_version) else raw


def decode_response_header(data: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id and where the body starts, as a client does.

    Raises:
      RemoteProtocolError: the frame is shorter than its header.
    """
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(data)
        if not _has_tags(api_key, api_version):
            return correlation_id, 4
        return correlation_id, skip_tags(data, 4) if data[4] else 5
    except DECODE_ERRORS as error:
        raise malformed("ResponseHeader", 1, error) from error


def _has_tags(api_key: int, api_version: int) -> bool:
    if api_key == _API_VERSIONS:
        return False
    first_flexible = _FIRST_FLEXIBLE.get(api_key)
    return first_flexible is not None and api_version >= first_flexible
