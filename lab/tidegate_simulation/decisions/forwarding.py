"""Forwarded proposals: other deciders get them as bytes, under numbers, and some of them twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tidegate_coordination.forwarding.codec import (
    decode_answer,
    decode_proposal,
    encode,
    encode_proposal,
)
from tidegate_coordination.rules import numbered
from tidegate_coordination.rules.numbered import NotDecided, Numbered, failure_text
from tidegate_coordination.rules.proposal import Proposal

from .decider import Asked, Decider

_PATIENCE: Final = 4
_TOO_LATE_SHARE: Final = 0.05
_WITHDRAWN_SHARE: Final = 0.05
_SENT_LATE_MS: Final = 3_000


@dataclass(slots=True)
class _Author:
    """open: numbers that the author may send again.

    acknowledged: the author sends no number up to this one again.
    """

    last: int = 0
    acknowledged: int = 0
    open: list[int] = field(default_factory=list[int])


class Forwards:
    """See the module's head.  complain: called with the text of a violation."""

    def __init__(self, rng: Random, complain: Callable[[str], None]) -> None:
        self._rng: Final = rng
        self._complain: Final = complain
        self._authors: Final[dict[int, _Author]] = {}
        self._answers: Final[dict[tuple[int, int], bytes]] = {}

    def send(
        self,
        author: Decider,
        targets: Sequence[Decider],
        kind: str,
        asked: Asked,
        now_ms: int,
    ) -> None:
        """Queue a proposal of a kind at each target."""
        clock_ms = now_ms + author.skew_ms
        own = self._authors.setdefault(author.incarnation, _Author())
        own.last += 1
        own.open.append(own.last)
        del own.open[:-_PATIENCE]
        number = own.last
        own.acknowledged = max(own.acknowledged, min(own.open) - 1)
        data = encode_proposal(asked.proposal)
        is_late = self._rng.random() < _TOO_LATE_SHARE
        before_ms = author.state.log_time_ms + self._rng.randint(1, _SENT_LATE_MS) if is_late else 0
        for target in targets:
            facts = numbered.Asked(again=len(targets) > 1)
            facts.is_withdrawn = self._rng.random() < _WITHDRAWN_SHARE
            copy: Proposal[Any] = Numbered(
                author.incarnation,
                number,
                own.acknowledged,
                clock_ms,
                -1,
                decode_proposal(kind, data),
                encode,
                facts,
                before_ms,
            )
            judged = self._judge(author.incarnation, number, kind, asked)
            target.queue.append(Asked(copy, judged, lambda: None, asked.failed))

    def _judge(
        self, incarnation: int, number: int, kind: str, asked: Asked
    ) -> Callable[[Any, bool], None]:
        def judged(answer: bytes | NotDecided, is_told: bool) -> None:
            own = self._authors[incarnation]
            if isinstance(answer, NotDecided):
                if answer is NotDecided.ACKNOWLEDGED and number > own.acknowledged:
                    self._complain(f"{incarnation} may ask for {number}, and gets {answer}")
                return
            first = self._answers.get((incarnation, number))
            if first is not None:
                if first != answer:
                    self._complain(f"{number} of {incarnation} is answered {first!r}, {answer!r}")
                return
            self._answers[incarnation, number] = answer
            if is_told and number in own.open:
                own.open.remove(number)
            text = failure_text(answer)
            if text is None:
                asked.judged(decode_answer(kind, answer), is_told)
            elif text not in (numbered.WITHDRAWN, numbered.TOO_LATE):
                asked.failed(text)

        return judged
