"""Changes of records by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from typing import Any

from ...topics.client_acts import Act


def records_deleted(request: Any, response: Any) -> Act:
    """Return the partitions whose oldest records a request deleted."""
    names = [
        f"{topic.name}-{each.partition_index} below {each.low_watermark}"
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code
    ]
    return Act("records deleted", names, {})
