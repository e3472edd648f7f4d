"""Names as they stood when a client's gateway looked them up, with the log read to its end."""

from __future__ import annotations

from collections.abc import Mapping

from ..state.topics import Topic
from .proposal import View


def mirrored_text(topic: Topic) -> str:
    """Return why a client may not change a mirrored topic."""
    return f"Topic '{topic.name}' is mirrored by link {topic.link}: only its source can change it."


def unfinished_text(topic: Topic, link: str) -> str:
    """Return why a client may not delete a topic that was switched to this cluster."""
    return (
        f"Topic '{topic.name}' was switched to this cluster by link {link}: end that first with"
        f" `tidegate link finish {link}`."
    )


def found_topic(view: View, name: str, topic_ids: Mapping[str, bytes]) -> Topic | None:
    """Return the topic that a name meant when it was looked up, if it still does.

    topic_ids: the topic ids by name, b"" for none. A name that is missing in topic_ids means its
    present topic: an older release looked up no names.
    """
    topic = view.state.topics.by_name.get(name)
    if topic is None or topic_ids.get(name, topic.topic_id) != topic.topic_id:
        return None
    return topic
