"""Checks of progress: a request after healing is answered, and in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .facts import Facts, Violation, value_of
from .history import Event

WAKE_SECONDS: Final = 5.0
STUCK_SECONDS: Final = 120.0


def late_wakeups(facts: Facts) -> Iterator[Violation]:
    """After healing, a waiting poll is answered soon after a record for it is acknowledged."""
    healed = _healed(facts)
    if healed is None:
        return
    for event, table in facts.finished("poll"):
        begun = facts.events[event.of]
        if begun.index < healed.index or table.get("wait_ms", 0) < 2000 * WAKE_SECONDS:
            continue
        for sent in facts.events[begun.index : event.index]:
            if sent.f == "send" and sent.type == "ok" and _is_for(sent, table["key"], begun):
                seconds = (event.time_ns - sent.time_ns) / 1e9
                if seconds > WAKE_SECONDS:
                    text = f"{event.process} was answered {seconds:.1f} s after a record was there"
                    yield Violation("late wake-up", text, (event.index,))


def _is_for(sent: Event, key: int, poll: Event) -> bool:
    table = value_of(sent)
    return bool(table["key"] == key and table["offset"] >= value_of(poll)["position"])


def unfinished(facts: Facts) -> Iterator[Violation]:
    """A request that began after healing, or shortly before, ends."""
    healed = _healed(facts)
    if healed is None:
        return
    ended = {event.of for event in facts.events}
    last_ns = facts.events[-1].time_ns
    for event in facts.events:
        since_ns = max(event.time_ns, healed.time_ns)
        is_open = event.type == "invoke" and event.index not in ended
        if is_open and last_ns - since_ns > STUCK_SECONDS * 1e9:
            text = f"{event.f} of {event.process} had no end {STUCK_SECONDS:.0f} s after healing"
            yield Violation("stuck", text, (event.index,))


def _healed(facts: Facts) -> Event | None:
    return next((each for each in facts.events if each.f == "healed"), None)
