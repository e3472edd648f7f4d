"""An entry under construction: it decides proposals one by one, as long as they may share it."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from ..events.entries import check_readable, encode_events
from ..events.gates import ABOVE_NEWEST, allowed_to, needed_for
from ..events.metadata_versions import FEATURE_NAME, NEWEST
from ..rules.numbered import Numbered
from ..rules.proposal import Decided, Proposal, View
from ..rules.security.permitted import Permitted, RightsChanged
from ..state.broken import NumbersRunOut
from ..state.cluster import ClusterState
from ..state.entry_trial import Trial

Whose = TypeVar("Whose")

HEAD_BYTES: Final = 100  # the size of an entry without its events

_log = structlog.get_logger("tidegate.coordinator")


class CannotCommit(Exception):
    """The proposal fails; the proposals before it in the draft may be appended."""


class Draft(Generic[Whose]):
    """See the module's head.

    writer: incarnation; 0 before it is registered.  may_write: False once the writer has left.
    max_bytes: the size limit of the entry. answers: the `whose` and the answer of each proposal;
    the answer holds once the entry is folded.
    """

    def __init__(
        self, state: ClusterState, writer: int, clock_ms: int, *, max_bytes: int, may_write: bool
    ) -> None:
        log_time_ms = state.log_time_after(writer, clock_ms)
        self.clock_ms: Final = clock_ms
        self.log_time_ms: Final = log_time_ms
        self.may_write: Final = may_write
        self.events: list[msgspec.Raw] = []
        self.answers: list[tuple[Whose, Any]] = []
        self._view = View(state, writer, clock_ms, log_time_ms)
        self._max_bytes = max_bytes - HEAD_BYTES
        self._size_bytes = 0
        self._is_numbered = False
        self._trial = Trial(state)

    def may_hold(self, proposal: Proposal[Any]) -> bool:
        """Return whether one more proposal may share the entry.

        After a numbered proposal, a proposal without a number would count as one of the same
        author: see events.Proposed.
        """
        if self._is_numbered and not isinstance(proposal, Numbered):
            return False
        return not proposal.reads & self._view.written

    def add(self, proposal: Proposal[Any], whose: Whose) -> bool:
        """Decide a proposal; False if it has to begin another entry.

        Then the entry has no room for the proposal, or the proposal fails, perhaps because of the
        events that the draft already has.  Add no more to the draft, since its overlay may hold
        parts of the proposal.

        Raises:
          CannotCommit: see that class. Add no more to the draft, either.
        """
        try:
            decided, encoded = self._decide(proposal)
        except CannotCommit:
            raise
        except RightsChanged as error:
            raise CannotCommit(str(error)) from error
        except Exception as error:
            _log_failure(proposal, error)
            if self.events:
                return False
            text = str(error) if isinstance(error, NumbersRunOut) else f"internal error: {error}"
            raise CannotCommit(text) from error
        size_bytes = sum([len(bytes(each)) for each in encoded])
        if self._size_bytes + size_bytes > self._max_bytes:
            if not self.events:
                raise CannotCommit("larger than one entry of the metadata log may be")
            return False
        self.events += encoded
        self.answers.append((whose, decided.answer))
        self._size_bytes += size_bytes
        self._is_numbered = isinstance(proposal, Numbered)
        if decided.events:
            self._view.written |= proposal.writes
        return True

    def _decide(self, proposal: Proposal[Any]) -> tuple[Decided[Any], list[msgspec.Raw]]:
        decided = proposal.decide(self._view)
        if decided.events and not self.may_write:
            raise CannotCommit("this gateway has left the cluster and writes no more")
        self._check_version(decided)
        encoded = encode_events(decided.events)
        check_readable(decided.events, encoded)
        self._trial.check(decided.events)
        return decided, encoded

    def _check_version(self, decided: Decided[Any]) -> None:
        """Refuse events that an older release cannot read, even if a rule forgot to."""
        present = self._view.state.metadata_version
        if present >= NEWEST and ABOVE_NEWEST.isdisjoint(map(type, decided.events)):
            return
        needed = needed_for(decided.events)
        if needed > allowed_to(decided.events, present):
            raise RuntimeError(f"this needs {FEATURE_NAME} {needed}")


def _log_failure(proposal: Proposal[Any], error: Exception) -> None:
    """Log why a proposal could not be decided.

    A bug that one client's request meets must not stop the gateway for the others: deciding changes
    only the overlay, so only this proposal fails.  Its events must not reach the log, where they
    would stop every gateway (decision 24).
    """
    if isinstance(error, NumbersRunOut):
        _log.error("numbers have run out", proposal=_kind(proposal), error=str(error))
    else:
        _log.error("could not decide a proposal", proposal=_kind(proposal), exc_info=error)


def _kind(proposal: Proposal[Any]) -> type[Proposal[Any]]:
    while isinstance(proposal, Numbered | Permitted):
        proposal = proposal.proposal
    return type(proposal)
