"""How answers of other gateways, and of the log, reach the callers of forwarded proposals."""

from __future__ import annotations

import structlog

from ..coordinator.waiting import CoordinatorUnavailable, ProposalFailed
from ..rules.numbered import failure_text
from . import codec
from .messages import Answered, Outcome
from .outbox import Outgoing

_log = structlog.get_logger("tidegate.forwarding")


def deliver(outgoing: Outgoing, body: bytes) -> None:
    """Deliver an answer, or the failure that the log keeps in its place.

    An unreadable answer is that of a newer release.  No other gateway would answer differently, so
    the proposal ends with an unknown outcome and does not delay later proposals.
    """
    failure = failure_text(body)
    if failure is not None:
        outgoing.waiting.fail(ProposalFailed(failure))
        return
    try:
        result = codec.decode_answer(outgoing.kind, body)
    except codec.Unreadable as error:
        _log.error("cannot read an answer; it may be a newer release's", error=str(error))
        outgoing.waiting.fail(CoordinatorUnavailable(f"the outcome is unknown: {error}"))
    else:
        outgoing.waiting.deliver(result)


def failure_of(answer: Answered) -> ProposalFailed:
    """Return why a proposal failed, in words for its caller."""
    if answer.outcome == Outcome.NEWER:
        return ProposalFailed(
            "the gateways that reach the metadata log are of an older release: upgrade them first"
        )
    text = answer.body.decode(errors="replace")
    return ProposalFailed(text or "its author no longer waited for it")
