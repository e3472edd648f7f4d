"""Changes of client quotas by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from typing import Any

from ...topics.client_acts import Act


def quotas_altered(request: Any, response: Any) -> Act | None:
    """Return the entities whose quotas a request changed."""
    if request.validate_only:
        return None
    done = zip(request.entries, response.entries, strict=False)
    names = [
        ", ".join(f"{part.entity_type} {part.entity_name or '(default)'}" for part in each.entity)
        + ": "
        + ", ".join(f"{op.key} {'removed' if op.remove else f'= {op.value:g}'}" for op in each.ops)
        for each, result in done
        if not result.error_code
    ]
    return Act("client quotas altered", names, {})
