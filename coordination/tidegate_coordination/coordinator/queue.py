"""The proposals that this gateway decides, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Any

from ..rules.numbered import TOO_LATE, WITHDRAWN, Numbered
from .drafts import CannotCommit, Draft
from .waiting import ProposalFailed, Waiting
from .work import Work


class ProposalQueue:
    """Waits for the loop, which is woken by each proposal."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._waiting: deque[Waiting[Any]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting[Any]) -> None:
        """Append a proposal."""
        self._waiting.append(waiting)
        self._work.event.set()

    def withdraw(self, waiting: Waiting[Any]) -> bool:
        """Mark a proposal as withdrawn and remove it; False if it is not in the queue.

        A proposal that is not in the queue is in the entry under way.  If that entry is not
        appended, the proposal fails.
        """
        waiting.is_withdrawn = True
        try:
            self._waiting.remove(waiting)
        except ValueError:
            return False
        return True

    def take_out(self, wanted: Container[Waiting[Any]]) -> list[Waiting[Any]]:
        """Remove the wanted proposals; return those that were here, in their order."""
        taken = [each for each in self._waiting if each in wanted]
        self._waiting = deque(each for each in self._waiting if each not in wanted)
        return taken

    def fill(self, draft: Draft[Waiting[Any]]) -> None:
        """Decide proposals from the queue's head for as long as they may share the entry."""
        while self._waiting:
            proposal = self._waiting[0].to_decide
            if not draft.may_hold(proposal):
                break
            waiting = self._waiting.popleft()
            if waiting.before_ms and draft.log_time_ms > waiting.before_ms:
                waiting.fail(ProposalFailed(TOO_LATE))
                continue
            try:
                if not draft.add(proposal, waiting):
                    self._waiting.appendleft(waiting)
                    break
            except CannotCommit as error:
                self._fail(waiting, str(error), draft)
                break

    def _fail(self, waiting: Waiting[Any], text: str, draft: Draft[Waiting[Any]]) -> None:
        """Let a proposal fail.  If other gateways may hold copies of it, the log keeps the failure.

        Otherwise a copy could be committed after the author got the failure.
        """
        proposal = waiting.proposal
        if isinstance(proposal, Numbered) and proposal.keeps_failures and draft.may_write:
            waiting.proposal = proposal.failing(text)
            self._waiting.appendleft(waiting)
        else:
            waiting.fail(ProposalFailed(text))

    def put_back(self, lost: Draft[Waiting[Any]]) -> None:
        """Have the proposals of an entry that was not appended decided again, unless withdrawn."""
        for waiting, _ in reversed(lost.answers):
            if waiting.is_withdrawn:
                waiting.fail(ProposalFailed(WITHDRAWN))
            else:
                self._waiting.appendleft(waiting)
