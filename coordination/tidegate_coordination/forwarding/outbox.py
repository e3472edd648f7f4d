"""What one gateway has others decide: in order, under numbers, a question's worth at a time.

    add() --> waiting --take()--> asking --its answer--> end()
                 ^                  |
                 +--ask_for_less()--+

Of what was sent it is not known whether it came true, so it keeps its number until that is known.
Once its caller has withdrawn it, others are asked to see that it fails, unless it came true before.
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
    """A proposal, with the number it has for others."""

    number: int
    kind: str
    waiting: Waiting[Any]
    body: bytes = b""
    asked: Asked = field(default_factory=Asked)

    @property
    def was_sent(self) -> bool:
        """Tell whether another gateway may have heard of it."""
        return self.asked.again


class Outbox:
    """See the module's head.  asking: what the question under way asks, or the next one will."""

    def __init__(self) -> None:
        self.asking: list[Outgoing] = []
        self._waiting: deque[Outgoing] = deque()
        self._next_number = 1
        self._unanswered: dict[int, None] = {}

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is to be asked."""
        return not self.asking and not self._waiting

    @property
    def acknowledged(self) -> int:
        """Return the number up to which nothing will be asked again."""
        return next(iter(self._unanswered), self._next_number) - 1

    def take_number(self) -> int:
        """Return a number of which an answer is wanted, until end()."""
        number = self._next_number
        self._next_number += 1
        self._unanswered[number] = None
        return number

    def end(self, number: int) -> None:
        """Never ask for a number again."""
        self._unanswered.pop(number, None)

    def add(self, outgoing: Outgoing) -> None:
        """Let a proposal wait behind all that do."""
        self._waiting.append(outgoing)

    def add_first(self, several: Iterable[Outgoing]) -> None:
        """Let proposals wait, in their order, before all that do."""
        self._waiting.extendleft(reversed(list(several)))

    def withdraw(self, waiting: Waiting[Any]) -> None:
        """Forget a proposal, if no other gateway ever heard of it; else ask that it fails."""
        for among in (self.asking, self._waiting):
            for outgoing in among:
                if outgoing.waiting is waiting:
                    outgoing.asked.is_withdrawn = True
                    if not outgoing.was_sent:
                        among.remove(outgoing)
                        self.end(outgoing.number)
                    return

    def take(self, encode: Callable[[Proposal[Any]], bytes]) -> list[Outgoing]:
        """Fill a question with what waits; return what no gateway takes, which has ended.

        Asked for again and again it would hold up all behind it.
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
        """Leave the second half for later: a line may be too slow for all that waited."""
        half = (len(self.asking) + 1) // 2
        self.add_first(self.asking[half:])
        del self.asking[half:]

    def hand_back(self) -> list[Outgoing]:
        """Return what was to be asked, to be decided here."""
        asking, self.asking = self.asking, []
        return asking
