"""A gateway reduced to its replica and its queue: it decides, appends and folds, without waiting.

The steps are those of coordinator/committer.py and queue.py.  The deciding parts are the product's
(Draft, the rules, the fold); plain calls replace the waiting parts.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Protocol

import msgspec

from tidegate_coordination.coordinator.drafts import CannotCommit, Draft
from tidegate_coordination.events.cluster import Event
from tidegate_coordination.events.entries import (
    Entry,
    decode_entry,
    encode_entry,
    encode_events,
    entry_nonce,
)
from tidegate_coordination.events.metadata_versions import LEVELS, NEWEST
from tidegate_coordination.rules.numbered import Numbered
from tidegate_coordination.rules.proposal import Proposal
from tidegate_coordination.rules.security.permitted import Permitted
from tidegate_coordination.state.cluster import ClusterState

from .pure_log import PureLog

NONCE_BYTES: Final = 12
# Small, so that some drafts end because an entry has no room left.
MAX_ENTRY_BYTES: Final = 16 << 10
_READ_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A proposal and its callers.

    judged: called with the answer once an entry holds it, in the order of the log, and with whether
    the caller gets the answer.  unknown: called if the decider died first; perhaps no entry holds
    the proposal.  failed: called if the proposal changed nothing.
    """

    proposal: Proposal[Any]
    judged: Callable[[Any, bool], None]
    unknown: Callable[[], None]
    failed: Callable[[str], None]


class Watch(Protocol):
    """Sees each entry once."""

    @property
    def decided(self) -> Counter[type]:
        """Return how often each kind of proposal brought events."""
        ...

    def before(self, entry: Entry, position: int) -> None:
        """Take an entry that was just appended."""
        ...

    def after(self, state: ClusterState) -> None:
        """Take the state after the entry.  Then its answers are judged."""
        ...

    def rest(self) -> None:
        """Note that the next answers need no entry."""
        ...


class Decider:
    """See the module's head.

    number: also its node id; with 0 it never registers.  skew_ms: of its clock.  incarnation: 0
    before it has registered.  highest_version: the highest level that it can read.
    """

    def __init__(self, number: int, log: PureLog, rng: Random, watch: Watch) -> None:
        self.number: Final = number
        self.incarnation = 0
        self.highest_version = NEWEST
        self.skew_ms = 0
        self.lost_conflicts = 0
        self.state = ClusterState()
        self.queue: deque[Asked] = deque()
        self._log = log
        self._rng = rng
        self._watch = watch

    @property
    def has_left(self) -> bool:
        """Whether another decider ended its incarnation."""
        return bool(self.incarnation) and not self.state.gateways.is_live(self.incarnation)

    def follow(self, count: int = _READ_AT_ONCE) -> bool:
        """Fold at most `count` entries; return whether there were any."""
        entries = self._log.read(self.state.position + 1, count)
        for payload in entries:
            self._fold(payload)
        return bool(entries)

    def restore(self) -> None:
        """Continue from a snapshot of its own state."""
        self.state = ClusterState.decode(self.state.encode())

    def die(self) -> None:
        """Forget the incarnation, the queue and the state; the next incarnation starts from the
        log.
        """
        asked, self.queue = self.queue, deque()
        for each in asked:
            each.unknown()
        self.incarnation = 0
        self.state = ClusterState()

    def commit(self, now_ms: int, *, is_told: bool = True) -> None:
        """Append as much of the queue as one entry holds; the append may get CONFLICT.

        is_told: False if the decider dies after the append, so that callers get no answers.
        """
        while self.queue:
            draft = self._draft(now_ms)
            if draft.events:
                if self._append(draft):
                    break
                self.lost_conflicts += 1
            elif not self.follow(1):
                self._watch.rest()
                break
            self.queue.extendleft(asked for asked, _ in reversed(draft.answers))
        else:
            return
        for asked, answer in draft.answers:
            asked.judged(answer, is_told)
        if not is_told:
            self.die()

    def _draft(self, now_ms: int) -> Draft[Asked]:
        draft: Draft[Asked] = Draft(
            self.state,
            self.incarnation,
            now_ms + self.skew_ms,
            max_bytes=MAX_ENTRY_BYTES,
            may_write=not self.has_left,
        )
        while self.queue and draft.may_hold(self.queue[0].proposal):
            asked = self.queue.popleft()
            before = len(draft.events)
            try:
                is_added = draft.add(asked.proposal, asked)
            except CannotCommit as error:
                self._fail(asked, str(error))
                break
            if not is_added:
                self.queue.appendleft(asked)
                break
            if len(draft.events) > before:
                self._watch.decided.update(_kinds(asked.proposal))
        return draft

    def _fail(self, asked: Asked, text: str) -> None:
        """Let a proposal fail, as ProposalQueue does.

        If other gateways may hold a copy of the proposal, the log keeps the failure.
        """
        proposal = asked.proposal
        if self.has_left:
            asked.unknown()
        elif isinstance(proposal, Numbered) and proposal.keeps_failures:
            self.queue.appendleft(replace(asked, proposal=proposal.failing(text)))
        else:
            asked.failed(text)

    def append(self, events: Sequence[Event], now_ms: int) -> None:
        """Append events that no rule decided."""
        self._append_events(encode_events(events), now_ms)

    def _append(self, draft: Draft[Asked]) -> bool:
        return self._append_events(draft.events, draft.clock_ms)

    def _append_events(self, events: Sequence[msgspec.Raw], clock_ms: int) -> bool:
        """Append an entry; return False if another decider took the position first.

        Then the decider reads that entry.
        """
        position = self.state.position + 1
        nonce = self._rng.randbytes(NONCE_BYTES)
        payload = encode_entry(
            nonce,
            self.incarnation,
            clock_ms,
            events,
            clock_ms,
            entry_format=LEVELS[self.state.metadata_version].entry_format,
            position=position,
        )
        is_first = self._log.append(position, payload)
        winner = self._log.read(position, 1)[0]
        if is_first:
            self._watch.before(decode_entry(winner, position, self.state.entry_formats), position)
        self._fold(winner)
        if is_first:
            self._watch.after(self.state)
        return entry_nonce(winner) == nonce

    def _fold(self, payload: bytes) -> None:
        position = self.state.position + 1
        entry = decode_entry(payload, position, self.state.entry_formats)
        self.state.apply(position, entry)
        self.state.touched.clear()


def _kinds(proposal: Proposal[Any]) -> Iterator[type]:
    """Yield the kind of a proposal, and the kinds of the proposals that it wraps."""
    yield type(proposal)
    if isinstance(proposal, Numbered | Permitted):
        yield from _kinds(proposal.proposal)
