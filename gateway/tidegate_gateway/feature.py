"""A feature of the gateway: its APIs, its tasks, its metrics and its admin pages.

Each folder in requests/ makes a feature in its feature.py, and gateway.py lists all features.  Each
API has a row in a feature.  Dispatch, guards, limits, log lines and ApiVersions know an API only by
its row.  So a new API needs only a handler and a row, and an absent feature costs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.rules.cluster_settings import ClusterSettings
from tidegate_protocol.headers import RequestHeader
from tidegate_runtime.http.pages import Answer
from tidegate_runtime.prometheus import Break, Family

from .counting.slow_requests import Waits
from .environment import Environment, Identity
from .gateway_counters import GatewayCounters
from .network.arenas import Arena
from .network.call import Handler
from .network.connection import Connection
from .network.large_requests import MAX_ELEMENTS
from .security.guard import Guard
from .settings.broker_settings import BrokerSettings
from .topics.client_acts import Act
from .upkeep.upkeep import Upkeep


def never(_request: Any) -> bool:
    """Return False: no request of the API changes the cluster as an administrator does."""
    return False


def always(_request: Any) -> bool:
    """Return True: each request of the API changes the cluster as an administrator does."""
    return True


@dataclass(frozen=True, slots=True)
class Row:
    """An API.

    handler: answers requests.  guard: checks the rights of clients.  is_brief: its answers to small
    requests are small.  holds_nothing: its answers may come late, and its decoded requests hold no
    part of their frames.  waits: what an answer may wait for.  is_step: a request is a step of a
    transaction.  If this gateway stands still, the client repeats the step at another gateway.  If
    this gateway then did the step late, it would fence the client or end the client's next
    transaction.  is_of_members: members of groups send it, so their heartbeats wait for its answer.
    max_elements: the limit on the elements of one request, in all its arrays; see
    large_requests.py.  lists: its answer may have a row for each entry of a table.  keeps_rows:
    other answers hold the rows of its answer.  act: returns a log line's content for a request and
    its response; None for no line.  is_audited: the audit log notes its changes.  proposes: whether
    a request changes the cluster as an administrator does; see permit.py.  is_exempt: no quota
    throttles it.
    """

    handler: Handler
    guard: Guard
    _: KW_ONLY
    is_brief: bool = False
    holds_nothing: bool = False
    waits: Waits = Waits.NEVER
    is_step: bool = False
    is_of_members: bool = False
    max_elements: int = MAX_ELEMENTS
    lists: bool = False
    keeps_rows: bool = False
    act: Callable[[Any, Any], Act | None] | None = None
    is_audited: bool = False
    proposes: Callable[[Any], bool] = never
    is_exempt: bool = False

    @property
    def key(self) -> int:
        """Return the API's key."""
        return self.handler.api_key


@dataclass(frozen=True, slots=True)
class StagedRow:
    """An API that answers in two stages.  Its handler reads frames, and checks rights and quotas.

    Stage one fixes the order of requests.  After stage one the connection reads the next request;
    stage two answers.  start: does stage one.  start_nowait: does stage one without waiting;
    returns False if only start can do it.
    """

    key: int
    start_nowait: Callable[[Connection, memoryview, Arena], bool]
    start: Callable[[Connection, RequestHeader, memoryview, Arena], Awaitable[None]]


AnyRow: TypeAlias = Row | StagedRow


@dataclass(frozen=True, slots=True)
class Task:
    """A task that runs as long as the gateway.  what: the task's name in logs and metrics."""

    what: str
    run: Callable[[], Awaitable[None]]


Metrics: TypeAlias = Callable[[], Iterable[Family | Break]]
Page: TypeAlias = Callable[[], Awaitable[Answer]]


def no_metrics() -> Iterable[Family | Break]:
    """Return the metrics of a feature that has none."""
    return ()


@dataclass(frozen=True, slots=True)
class Feature:
    """See the module's head.

    metrics: yields the values of this gateway.  facts: yields values that are the same at all
    gateways.  pages: admin pages by path; see admin_pages.py.
    """

    name: str
    rows: tuple[AnyRow, ...] = ()
    tasks: tuple[Task, ...] = ()
    _: KW_ONLY
    metrics: Metrics = no_metrics
    facts: Metrics = no_metrics
    pages: Mapping[str, Page] = field(default_factory=dict[str, Page])


@dataclass(frozen=True, slots=True)
class Ground:
    """The parts of a gateway that its features are made from.

    cluster: the settings of all gateways.  upkeep: runs the steps of tasks, and counts failures.
    """

    identity: Identity
    settings: BrokerSettings
    environment: Environment
    coordinator: Coordinator
    cluster: ClusterSettings
    upkeep: Upkeep
    counters: GatewayCounters

    def new_topic_id(self) -> bytes:
        """Return 16 random bytes."""
        return self.environment.rng.randbytes(16)


def by_key(rows: Iterable[AnyRow]) -> dict[int, AnyRow]:
    """Return the rows by API key.

    Raises:
      LookupError: two rows have the same key.
    """
    found: dict[int, AnyRow] = {}
    for each in rows:
        if each.key in found:
            raise LookupError(f"two rows have the API key {each.key}")
        found[each.key] = each
    return found
