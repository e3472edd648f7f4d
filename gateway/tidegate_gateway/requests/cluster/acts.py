"""Changes of the cluster by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from typing import Any

from ...topics.client_acts import Act


def features_changed(request: Any, response: Any) -> Act | None:
    """Return the features of the cluster that a request changed."""
    refused = {each.feature for each in response.results if each.error_code}
    if request.validate_only or response.error_code:
        return None
    updates = [each for each in request.feature_updates if each.feature not in refused]
    return Act(
        "features changed", [f"{each.feature}={each.max_version_level}" for each in updates], {}
    )
