"""The facts that a handler gets about a request, besides the request itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol

from tidegate_coordination.security.acls import Operation, ResourceType

from ..audit import Audit
from ..unserved import Refusal
from .client_zone import NOWHERE, ClientZone
from .fetch_work import FetchWork
from .forward_line import ForwardLine

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of clients that have shown no other, as Kafka names it."""


class Login(Enum):
    """How a client has logged in by SASL, if at all."""

    NONE = auto()
    CREDENTIALS = auto()
    TOKEN = auto()


class Rights(Protocol):
    """The rights of one principal from one host; see security/authority.py."""

    @property
    def principal(self) -> str:
        """Return the principal of these rights."""
        ...

    def may(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Return whether the client may do an operation on a resource; log a denial."""
        ...

    def sees(self, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Return the same without a log line, for resources that an answer silently leaves out."""
        ...

    def may_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Return whether the client may do an operation on at least one resource of a type."""
        ...


class Mutations(Protocol):
    """The quota of partitions that a request creates or deletes (KIP-599)."""

    def take(self, partitions: int) -> bool:
        """Count the partitions of a topic; return False if the topic is refused."""
        ...


class Cost(Protocol):
    """The quotas that a request uses up; see quotas/request_cost.py."""

    @property
    def fetch_bytes(self) -> int | None:
        """The most bytes of records for a fetch; None for no limit."""
        ...

    def fetch(self, size_bytes: int, now_ms: int) -> bool:
        """Count the bytes of an answer; return False if it must be sent without records."""
        ...

    def mutations(self, *, is_strict: bool) -> Mutations | None:
        """Return the quota of partitions that are created or deleted; None without one."""
        ...

    def spend_seconds(self, seconds: float, now_ms: int) -> None:
        """Count the CPU time of a thread; this may come after the request's end."""
        ...


@dataclass(slots=True)
class Peer:
    """The client at the other end of a connection.

    host, port: the client's address; behind a proxy, the one that the PROXY header names.
    listener: the listener's name.
    client_id: of its first request; None before that.
    origin: the zone of its listener or address.  said_rack: see client_racks.py.
    produced_bytes, fetched_bytes: see zone_traffic.py.
    plain_prefix_end: the length of the prefix that its produce requests share; see
      produce_fast_path.py.
    was_sent_away: whether a produce request was refused to send the client to another gateway, or a
      batch was not written and the client sends it again; see produce.py.  was_fetch_refused:
      whether the last fetch answer that sent the client to other gateways named no gateway; see
      read_steering.py.  was_refused: whether the client may send a refused batch again after later
      batches that are already under way; produce.py checks such batches.  principal: who the client
      is; "User:ANONYMOUS" without authentication.  login: how the client has logged in by
      SASL, if at all.  session_ends_at: the end of the authenticated session, in seconds on Trio's
      clock.  forward_line: orders the batches that are forwarded to other clusters; None before the
      first batch.  rights: the client's; None before their first use, and without an authorizer.
      software: the name and version that the client sent (KIP-511); ("", "") if it sent none.
      telemetry_id: the id of the client instance that asked for a telemetry subscription, or pushed
      metrics (KIP-714).  is_limited: whether its produce requests have a quota, which produce.py
      applies.  fetch_work: the cost of its last fetch.
    """

    host: str
    port: int
    listener: str
    client_id: str | None = None
    origin: ClientZone = NOWHERE
    said_rack: tuple[str, str] | None = None
    produced_bytes: int = 0
    fetched_bytes: int = 0
    plain_prefix_end: int = 0
    was_sent_away: bool = False
    was_fetch_refused: bool = False
    was_refused: bool = False
    forward_line: ForwardLine | None = None
    principal: str = ANONYMOUS
    login: Login = Login.NONE
    rights: Rights | None = None
    session_ends_at: float = inf
    is_limited: bool = False
    software: tuple[str, str] = ("", "")
    telemetry_id: bytes | None = None
    fetch_work: FetchWork = field(default_factory=FetchWork)

    @property
    def may_have_tokens(self) -> bool:
        """Return whether the client may use the APIs for delegation tokens (KIP-48).

        A client that logged in by a token may not, nor a client without a login or certificate.
        """
        if self.login is Login.NONE:
            return self.principal != ANONYMOUS
        return self.login is Login.CREDENTIALS


def _tell_nobody(refusal: Refusal) -> None:
    pass


def _is_here() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its API version and its client.  client_id is "" if the client sent null.

    note_refused: called with each feature that the request asks for and the gateway refuses; see
      refused_features.py.
    is_gone: returns whether the client is known to have closed its connection.  cost: counts
    against the client's quotas; None if the client has none.  audit: notes the request's changes;
    None without an audit log.
    """

    version: int
    client_id: str
    peer: Peer
    note_refused: Callable[[Refusal], None] = _tell_nobody
    is_gone: Callable[[], bool] = _is_here
    cost: Cost | None = None
    audit: Audit | None = None


class Handler(Protocol):
    """Answers one API in all its versions.

    messages: the generated module of the API (decode_request, encode_response).
    If a handler raises CoordinatorUnavailable, the gateway closes the connection: the outcome is
    unknown, and a Kafka client reads a closed connection as an unknown outcome.
    """

    api_key: ClassVar[int]
    messages: ClassVar[ModuleType]

    async def handle(self, call: Call, request: Any) -> Any:
        """Return the response; may wait."""
        ...
