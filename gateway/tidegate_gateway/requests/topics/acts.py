"""Changes of topics by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from typing import Any

from ...topics.client_acts import Act, topics_created


def created(request: Any, response: Any) -> Act | None:
    """Return the topics that a request created."""
    if request.validate_only:
        return None
    return topics_created([each.name for each in response.topics if not each.error_code])


def deleted(request: Any, response: Any) -> Act:
    """Return the topics that a request deleted."""
    done = [each for each in response.responses if not each.error_code]
    return Act("topics deleted", [each.name or each.topic_id.hex() for each in done], {})


def extended(request: Any, response: Any) -> Act | None:
    """Return the topics that got more partitions."""
    if request.validate_only:
        return None
    counts = {each.name: each.count for each in request.topics}
    done = [each.name for each in response.results if not each.error_code]
    names = [f"{name} to {counts[name]}" for name in done if name in counts]
    return Act("partitions added", names, {})
