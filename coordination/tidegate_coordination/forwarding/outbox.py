"""Proposals that one gateway sends to others: in order, under numbers, in questions.

    add() --> waiting --take()--> asking --its answer--> end()
                 ^                  |
                 +--ask_for_less()--+

A proposal that was sent may have been committed, so it keeps its number until its outcome is known.
If the caller has withdrawn the proposal, the question says that, and the proposal fails unless it
is decided already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from ..coordinator.waiting import Waiting
from ..rules.numbered import Asked
from ..rules.proposal import Proposal
from .messages import MAX_ASK_BYTES, MAX_PROPOSAL_BYTES

UNNUMBERED: Final = 0


@dataclass(eq=False, slots=True)
class Outgoing:
    """A proposal, and the number under which other gateways know it."""

    number: int
    kind: str
    waiting: Waiting[Any]
    body: bytes = b""
    asked: Asked = field(default_factory=Asked)

    @property
    def was_sent(self) -> bool:
        """Whether another gateway may have got it."""
        return self.asked.again


class Outbox:
    """See the module's head.  asking: the proposals of the question under way, or of the next."""

    def __init__(self) -> None:
        self.asking: list[Outgoing] = []
        self._waiting: deque[Outgoing] = deque()
        self._next_number = 1
        self._unanswered: dict[int, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to ask."""
        return not self.asking and not self._waiting

    @property
    def acknowledged(self) -> int:
        """The number up to which this gateway wants no more answers."""
        return next(iter(self._unanswered), self._next_number) - 1

    def take_number(self) -> int:
        """Return a new number; its answer is wanted until end()."""
        number = self._next_number
        self._next_number += 1
        self._unanswered[number] = None
        return number

    def end(self, number: int) -> None:
        """Never ask for a number again."""
        self._unanswered.pop(number, None)

    def add(self, outgoing: Outgoing) -> None:
        """Add a proposal after all that wait."""
        self._waiting.append(outgoing)

    def add_first(self, several: Iterable[Outgoing]) -> None:
        """Add proposals, in their order, before all that wait."""
        self._waiting.extendleft(reversed(list(several)))

    def withdraw(self, waiting: Waiting[Any]) -> None:
        """Drop a proposal if no other gateway can have got it; else ask for its failure."""
        for among in (self.asking, self._waiting):
            for outgoing in among:
                if outgoing.waiting is waiting:
                    outgoing.asked.is_withdrawn = True
                    if not outgoing.was_sent:
                        among.remove(outgoing)
                        self.end(outgoing.number)
                    return

    def take(self, encode: Callable[[Proposal[Any]], bytes]) -> list[Outgoing]:
        """Fill a question with waiting proposals; return and forget too large proposals.

        These would be asked for again and again, and delay all later proposals.
        """
        too_large: list[Outgoing] = []
        size_bytes = 0
        while self._waiting:
            outgoing = self._waiting[0]
            outgoing.body = outgoing.body or encode(outgoing.waiting.proposal)
            if len(outgoing.body) > MAX_PROPOSAL_BYTES:
                too_large.append(self._waiting.popleft())
                self.end(outgoing.number)
                continue
            size_bytes += len(outgoing.body) + 100
            if self.asking and size_bytes > MAX_ASK_BYTES:
                break
            self.asking.append(self._waiting.popleft())
        return too_large

    def ask_for_less(self) -> None:
        """Leave the second half for later: the link may be too slow for the whole question."""
        half = (len(self.asking) + 1) // 2
        self.add_first(self.asking[half:])
        del self.asking[half:]

    def hand_back(self) -> list[Outgoing]:
        """Empty the question; return its proposals, which this gateway decides itself."""
        asking, self.asking = self.asking, []
        return asking
