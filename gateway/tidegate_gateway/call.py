"""What a handler knows about the request it answers, beside the request itself."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Protocol


@dataclass(slots=True)
class Peer:
    """The client at the other end of a connection.

    listener: the listener's name.  software_name, software_version: from ApiVersions (KIP-511).
    """

    host: str
    port: int
    listener: str
    software_name: str = ""
    software_version: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its API version and who sent it.  client_id is "" where the client sent null."""

    version: int
    client_id: str
    peer: Peer


class Handler(Protocol):
    """Answers one API in all its versions.

    messages: the generated module of the API (decode_request, encode_response).
    A handler that raises CoordinatorUnavailable costs its connection: the outcome is unknown, and a
    closed connection is what a Kafka client takes for that.
    """

    api_key: ClassVar[int]
    messages: ClassVar[ModuleType]

    async def handle(self, call: Call, request: Any) -> Any:
        """Return the response; may wait."""
        ...
