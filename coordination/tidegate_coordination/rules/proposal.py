"""Proposals, and the view with which they are decided.

`decide` reads the state and the overlay (the changes of earlier proposals of the same entry), and
returns events and an answer, or no events and a refusal.  `decide` changes only the overlay: the
state changes when the entry is folded, once the entry has its position in the log.

WAL commits and the steps of transactions are frequent enough to share an entry while touching the
same partitions: for these proposals the overlay keeps the next offsets, the producer states and the
transactional ids.  All other proposals declare by scope what they read and write.  A proposal that
reads a scope which an earlier proposal of the entry wrote waits for the next entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from ..events.cluster import Event
from ..state.cluster import ClusterState
from ..state.records.producers import ProducerState
from .transaction_overlay import TransactionOverlay

Answer_co = TypeVar("Answer_co", covariant=True)

TOPICS = "topics"
HEADS = "heads"
GATEWAYS = "gateways"
OBJECTS = "objects"
PRODUCER_IDS = "producer ids"
STAGED = "staged offsets"
ACLS = "ACLs"
SCRAM = "SCRAM credentials"
QUOTAS = "client quotas"
TOKENS = "delegation tokens"
NOTHING: frozenset[str] = frozenset()


def claim_scope(name: str) -> str:
    """Return the scope of one claim and of what it guards."""
    return f"claim {name}"


@dataclass(slots=True)
class View:
    """The state as it will be when the entry under construction is folded.

    clock_ms: the writer's clock, which the entry will carry.  log_time_ms: see
    ClusterState.log_time_after.  writer: incarnation whose proposal it is, 0 before registration.
    appender: the incarnation that appends the entry, if that is another one.
    acknowledged: by author of forwarded proposals, the number up to which the author repeats none,
      as of the entry so far.
    new_producers: how many producers the entry so far adds, by partition.
    overlay: the overlay that `transactions` returns, and that copies of the view share; None until
    it is first needed.
    """

    state: ClusterState
    writer: int
    clock_ms: int
    log_time_ms: int
    written: set[str] = field(default_factory=set[str])
    next_offsets: dict[int, int] = field(default_factory=dict[int, int])
    producers: dict[tuple[int, int], ProducerState] = field(
        default_factory=dict[tuple[int, int], ProducerState]
    )
    new_producers: dict[int, int] = field(default_factory=dict[int, int])
    wal_ids: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    appender: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict[int, int])
    overlay: TransactionOverlay | None = None

    @property
    def transactions(self) -> TransactionOverlay:
        """Return the transactional ids as the entry will leave them; made when first needed."""
        if self.overlay is None:
            self.overlay = TransactionOverlay(self.state)
        return self.overlay

    def of_author(self, author: int) -> View:
        """Return the view of a forwarded proposal; it shares the whole overlay."""
        return replace(self, writer=author, appender=self.writer, overlay=self.transactions)


@dataclass(frozen=True, slots=True)
class Decided(Generic[Answer_co]):
    """No events: refused, or nothing to do; the answer says which."""

    events: Sequence[Event]
    answer: Answer_co


class Proposal(Protocol[Answer_co]):
    """A change of the state that a gateway proposes."""

    @property
    def reads(self) -> frozenset[str]:
        """Scopes that must not have been written earlier in the same entry."""
        ...

    @property
    def writes(self) -> frozenset[str]:
        """Scopes that its events change."""
        ...

    def decide(self, view: View) -> Decided[Answer_co]:
        """Return the events, and the answer to give once they are committed.  May be called
        again.
        """
        ...
