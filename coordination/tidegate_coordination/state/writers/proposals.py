"""Answers to numbered proposals, kept until their authors have them.

A gateway that forwards its proposals numbers them.  If it gets no answer, it sends the proposal
again, perhaps to another gateway; the deciding gateway then finds the first answer in this table.
So a proposal is committed at most once, even if it is sent often and arrives late at several
gateways.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...events.cluster import Proposed
from ..broken import expect


@dataclass(slots=True)
class _Author:
    acknowledged: int = 0
    answers: dict[int, bytes] = field(default_factory=dict[int, bytes])


class ProposalTable:
    """By author: the number up to which it never asks again, and the answers to higher numbers."""

    def __init__(self) -> None:
        self._authors: dict[int, _Author] = {}

    def is_acknowledged(self, incarnation: int, number: int) -> bool:
        """Return whether the author has acknowledged the number, so that it must not be decided."""
        author = self._authors.get(incarnation)
        return number <= (author.acknowledged if author is not None else 0)

    def answer(self, incarnation: int, number: int) -> bytes | None:
        """Return the first answer; None for a proposal that was not decided yet."""
        author = self._authors.get(incarnation)
        return author.answers.get(number) if author is not None else None

    def fold_proposed(self, event: Proposed) -> None:
        """Keep an answer, and forget the answers that the author has."""
        author = self._authors.setdefault(event.incarnation, _Author())
        expect(
            event.number > author.acknowledged and event.number not in author.answers,
            f"proposal {event.number} of incarnation {event.incarnation} again",
        )
        if event.acknowledged > author.acknowledged:
            author.acknowledged = event.acknowledged
            for number in [each for each in author.answers if each <= event.acknowledged]:
                del author.answers[number]
        author.answers[event.number] = event.answer

    def end(self, incarnation: int) -> None:
        """Forget an author that ended."""
        self._authors.pop(incarnation, None)

    def end_all(self) -> None:
        """Forget all of them."""
        self._authors.clear()

    def encode(self) -> object:
        """Return the whole table as builtins."""
        return [
            [incarnation, author.acknowledged, sorted(author.answers.items())]
            for incarnation, author in sorted(self._authors.items())
        ]

    def decode(self, rows: Iterable[Any]) -> None:
        """Fill an empty table from encode()'s answer."""
        self._authors = {
            incarnation: _Author(acknowledged, {number: answer for number, answer in answers})
            for incarnation, acknowledged, answers in rows
        }
