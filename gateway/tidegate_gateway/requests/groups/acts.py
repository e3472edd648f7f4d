"""Changes of groups by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from typing import Any

from ...topics.client_acts import Act


def groups_deleted(request: Any, response: Any) -> Act:
    """Return the groups that a request deleted."""
    done = [each.group_id for each in response.results if not each.error_code]
    return Act("groups deleted", done, {})


def offsets_deleted(request: Any, response: Any) -> Act:
    """Return the partitions whose committed offset a request deleted."""
    names = [
        f"{topic.name}-{each.partition_index}"
        for topic in response.topics
        for each in topic.partitions
        if not (response.error_code or each.error_code)
    ]
    return Act("group offsets deleted", names, {"group": request.group_id})


def joined(request: Any, response: Any) -> Act | None:
    """Return the member that joined a group."""
    if response.error_code:
        return None
    fields = {"group": request.group_id, "generation": response.generation_id}
    return Act("a member joined its group", [response.member_id], fields)


def left(request: Any, response: Any) -> Act | None:
    """Return the members that left a group."""
    if response.error_code:
        return None
    several = [each.member_id for each in response.members if not each.error_code]
    names = several if request.members else [request.member_id]
    return Act("members left their group", names, {"group": request.group_id})
