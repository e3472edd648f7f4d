"""Facts that may occur only once in an entry, shared by the parts of a trial; see events.py."""

from __future__ import annotations

from typing import TypeAlias

from ..broken import expect
from ..tables import StateTables
from ..topics import Topic

Once: TypeAlias = set[tuple[str, object]]
"""Names of facts, and the key of each: a topic, a fence, a claim."""


def only_once(once: Once, what: str, key: object) -> None:
    """Note a fact.

    Raises:
      StateBroken: it occurred in the entry before.
    """
    expect((what, key) not in once, f"{what} {key!r} twice in an entry")
    once.add((what, key))


def kept_topic(state: StateTables, once: Once, topic_id: bytes) -> Topic:
    """Return a topic that no earlier event of the entry deletes.

    Raises:
      StateBroken: an event does, or there is no such topic.
    """
    is_gone = ("end of topic", topic_id) in once
    expect(not is_gone, f"topic {topic_id.hex()} is deleted in the same entry")
    return state.topics.get(topic_id)
