"""Changes of configs by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from typing import Any, Final

from tidegate_coordination.rules.configs import ResourceType

from ...topics.client_acts import Act

CONFIGS_A_NAME: Final = 5
"""So many fit in a text of the audit log, with the name of a topic."""


def configs_altered(request: Any, response: Any) -> Act | None:
    """Return the names of altered configs, without values, since a value may be a secret."""
    if request.validate_only:
        return None
    done = {
        (each.resource_type, each.resource_name)
        for each in response.responses
        if not each.error_code
    }
    names = [
        f"{_resource(each.resource_type, each.resource_name)}: "
        + ", ".join(config.name for config in each.configs[first : first + CONFIGS_A_NAME])
        for each in request.resources
        if (each.resource_type, each.resource_name) in done
        for first in range(0, len(each.configs), CONFIGS_A_NAME)
    ]
    return Act("configs altered", names, {})


def _resource(kind: int, name: str) -> str:
    known = {each.value: each.name.lower().replace("_", " ") for each in ResourceType}
    return f"{known.get(kind, kind)} {name or '(all)'}"
