"""Changes of SCRAM credentials by clients, for log lines; see client_acts.py."""

from __future__ import annotations

from typing import Any

from ...topics.client_acts import Act


def credentials_altered(request: Any, response: Any) -> Act:
    """Return the users whose credentials a request set or removed."""
    done = [each.user for each in response.results if not each.error_code]
    return Act("SCRAM credentials altered", done, {})
